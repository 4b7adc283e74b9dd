#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "tests/arguments/draws.h"
#include "weft/group.h"
#include "weft/interrupt.h"

namespace weft::tests {
namespace {

Communicator alone() { return std::move(Communicator::threads(1).value().front()); }
Communicator empty() {
  Communicator moved = alone();
  const Communicator taken = std::move(moved);
  return moved;
}

// Elements for 64 elements of any type in every part, and one byte behind an element's place.
struct Buffers {
  alignas(64) std::array<std::byte, 1024> in{}, out{};
  void* pick(Draws& d, std::array<std::byte, 1024>& own) {
    return d.one_of<void*>({own.data(), own.data() + 1, nullptr, reinterpret_cast<void*>(~std::uintptr_t{0})});
  }
  static bool usable(const void* p) { return p != nullptr && p != reinterpret_cast<void*>(~std::uintptr_t{0}); }
};

Request drawn(Draws& d, Buffers& b) {
  Request r;
  r.collective = d.collective();
  r.count = d.count();
  r.type = d.type();
  r.op = d.op();
  r.root = d.coin() ? 0 : d.integer();
  r.channels = d.coin() ? 0 : d.integer();
  r.timeout = d.timeout();
  r.in = d.coin() ? b.in.data() : b.pick(d, b.in);
  r.out = d.coin() ? b.out.data() : b.pick(d, b.out);
  if (d.coin(4)) r.algorithm = d.one_of<const char*>({"", "rnig", "%s%n", "file:/nowhere.xml"});
  return r;
}

// Is the request right on a communicator of one rank? Says no where that depends on what weft chooses.
bool surely_right(const Request& r) {
  const bool counted = r.collective != Collective::kBarrier;
  const bool reduces = r.collective == Collective::kAllReduce || r.collective == Collective::kReduce ||
                       r.collective == Collective::kReduceScatter;
  const bool rooted = r.collective == Collective::kBroadcast || r.collective == Collective::kReduce ||
                      r.collective == Collective::kGather || r.collective == Collective::kScatter;
  if (!is_known(r.collective) || r.collective >= Collective::kAllGatherV) return false;
  if (counted && (!is_known(r.type) || r.count > 64)) return false;
  if (reduces && (!is_known(r.op) || !applies(r.type, r.op) || r.op == ReduceOp::kPremulSum)) return false;
  const bool buffers = !counted || r.count == 0 || (Buffers::usable(r.in) && Buffers::usable(r.out));
  return buffers && (!rooted || r.root == 0) && r.channels == 0 && right(r.timeout) && r.algorithm.empty();
}

// Is it wrong, whatever weft chooses?
bool surely_wrong(const Request& r) {
  if (!is_known(r.collective) || r.channels < 0 || r.channels > 255 || !right(r.timeout) || !r.algorithm.empty())
    return true;
  if (r.collective == Collective::kBarrier) return false;
  if (r.collective >= Collective::kAllGatherV || !is_known(r.type) || r.count > 64) return true;
  return r.count > 0 && (!Buffers::usable(r.in) || !Buffers::usable(r.out));
}

template <class R>
void expect_as(const Request& r, const R& result) {
  if (surely_right(r)) {
    EXPECT_TRUE(result) << result.error().message;
  } else if (surely_wrong(r)) {
    EXPECT_TRUE(refused(result)) << "collective " << static_cast<int>(r.collective) << ", type "
                                 << static_cast<int>(r.type) << ", count " << r.count << ", channels " << r.channels;
  }
}

void collectives(Draws& d) {
  Communicator c = alone();
  Buffers b;
  const Request r = drawn(d, b);
  expect_as(r, c.run(r));
  auto work = c.start(r);
  expect_as(r, work);
  if (work) EXPECT_TRUE(work->wait());
  Group group;
  group.add(c, r);
  expect_as(r, group.run());
  EXPECT_TRUE(c.barrier());  // none of that has broken anything
}

// Two ranks that are wrong alike are both refused, and neither waits.
void collectives_of_two(Draws& d) {
  auto both = Communicator::threads(2).value();
  std::array<Buffers, 2> b;
  Draws same = d;
  const Request first = drawn(d, b[0]);
  Request second = drawn(same, b[1]);
  if (!surely_wrong(first) || !surely_wrong(second)) return;
  EXPECT_TRUE(refused(both[0].run(first)));
  EXPECT_TRUE(refused(both[1].run(second)));
}

void uneven(Draws& d) {
  Communicator c = alone();
  std::array<std::byte, 1024> in{}, out{};
  const std::size_t one = d.count();
  const std::array<std::size_t, 2> counts{one, d.count()};
  Request r{.collective = d.one_of({Collective::kAllGatherV, Collective::kReduceScatterV, Collective::kAllToAllV}),
            .in = in.data(),
            .out = out.data(),
            .type = DataType::kInt64};
  const std::size_t entries = d.one_of<std::size_t>({0, 1, 2});
  r.counts = std::span(counts).first(entries);
  if (r.collective == Collective::kAllToAllV) r.receive_counts = r.counts;
  const Status done = c.run(r);
  if (entries == 1 && one <= 64)
    EXPECT_TRUE(done) << done.error().message;
  else
    EXPECT_TRUE(refused(done));
}

void transfers(Draws& d) {
  Communicator c = alone();
  Buffers b;
  std::array<Transfer, 2> both;
  bool right_ones = true;
  for (int i = 0; i < 2; ++i) {
    Transfer& t = both[static_cast<std::size_t>(i)];
    t.direction = static_cast<Transfer::Direction>(d.coin(4) ? d.one_of({2, 99, 255}) : i);
    t.peer = d.coin() ? 0 : d.integer();
    t.data = d.coin() ? b.in.data() : b.pick(d, i == 0 ? b.in : b.out);
    t.count = d.count();
    t.type = d.type();
    right_ones &= static_cast<int>(t.direction) == i && t.peer == 0 && is_known(t.type) && t.count <= 64 &&
                  (t.count == 0 || Buffers::usable(t.data));
  }
  right_ones &= both[0].count == both[1].count && both[0].type == both[1].type;
  const auto timeout = d.timeout();
  right_ones &= right(timeout);
  const Status done = c.exchange(both, timeout);
  auto work = c.start(both, timeout);
  Group group;
  group.add(c, both[0]);
  group.add(c, both[1]);
  const Status grouped = group.run();
  if (right_ones) {
    EXPECT_TRUE(done && work && grouped);
    const auto waited = work->wait_for(d.duration());
    EXPECT_TRUE(waited) << waited.error().message;
    EXPECT_TRUE(work->wait());
    EXPECT_TRUE(work->wait_for(d.duration()).value());  // it has finished: no limit matters
  } else {
    EXPECT_TRUE(refused(done));
    EXPECT_TRUE(refused(work));
    if (right(timeout)) EXPECT_TRUE(refused(grouped));
  }
}

void tagged(Draws& d) {
  Communicator c = alone();
  Buffers b;
  void* const data = d.coin() ? b.in.data() : b.pick(d, b.in);
  const std::size_t count = d.count();
  const DataType type = d.type();
  const Rank peer = d.coin() ? 0 : d.integer();
  const std::int32_t tag = d.coin() ? 5 : d.integer();
  const auto timeout = d.timeout();
  const bool same = is_known(type) && count <= 64 && (count == 0 || Buffers::usable(data)) && right(timeout);
  const Status sent = c.send(data, count, type, peer, tag, timeout);
  auto sending = c.start_send(data, count, type, peer, tag, timeout);
  if (same && peer == 0 && tag >= 0) {
    EXPECT_TRUE(sent && sending && sending->wait());
    auto receiving = c.start_receive(data, count, type, peer, tag, timeout);
    EXPECT_TRUE(receiving && receiving->test() && receiving->wait());
    EXPECT_TRUE(c.receive(data, count, type, peer, tag, timeout));
  } else {
    EXPECT_TRUE(refused(sent));
    EXPECT_TRUE(refused(sending));
    if (peer == kAnySource || tag == kAnyTag) return;
    EXPECT_TRUE(refused(c.receive(data, count, type, peer, tag, timeout)));
    EXPECT_TRUE(refused(c.start_receive(data, count, type, peer, tag, timeout)));
  }
  EXPECT_TRUE(refused(c.send(std::span<const float>(), -1, 3)));
  EXPECT_TRUE(refused(c.receive(std::span<float>(), 2, 3)));
  EXPECT_TRUE(refused(c.send(std::span<const float>(), 1)));
  EXPECT_TRUE(refused(c.receive(std::span<float>(), -7)));
}

void typed_calls(Draws& d) {
  Communicator c = alone();
  std::array<float, 8> in{}, out{};
  const std::size_t ins = d.one_of<std::size_t>({0, 3, 8}), outs = d.one_of<std::size_t>({0, 3, 8});
  const std::span<const float> input = std::span(in).first(ins);
  const std::span<float> output = std::span(out).first(outs);
  const ReduceOp op = d.op();
  const bool fits = ins == outs, sums = is_known(op) && op < ReduceOp::kAnd && op != ReduceOp::kPremulSum;
  const auto as = [](bool ok, const Status& s) { return ok ? testing::AssertionResult(bool(s)) : refused(s); };
  EXPECT_TRUE(as(fits && sums, c.all_reduce(input, output, op)));
  EXPECT_TRUE(as(fits && sums, c.reduce_scatter(input, output, op)));
  EXPECT_TRUE(as(fits, c.all_gather(input, output)));
  const Rank root = d.integer();
  EXPECT_TRUE(as(root == 0, c.broadcast(output, root)));
}

void rest_of_a_communicator(Draws& d) {
  Communicator c = alone();
  const std::size_t bytes = d.count();
  const auto memory = c.allocate(bytes);
  EXPECT_EQ(memory.has_value(), bytes <= 64);
  if (!memory) EXPECT_FALSE(memory.error().message.empty());
  std::byte own[8];
  void* const place = d.one_of<void*>({nullptr, own});
  const std::size_t size = d.one_of<std::size_t>({0, 1, 8, std::size_t{1} << 46, ~std::size_t{0}});
  const auto registered = c.register_memory(place, size);
  EXPECT_TRUE(registered ? place != nullptr && size > 0 && !registered->shared() : bool(refused(registered)));
  const auto timeout = d.some_timeout();
  EXPECT_EQ(bool(c.set_timeout(timeout)), right(timeout));
  EXPECT_TRUE(c.set_timeout(std::chrono::seconds(20)));
  EXPECT_EQ(bool(c.monitored_barrier(timeout)), right(timeout));
  c.set_interrupt({});
  c.set_interrupt([]() -> bool { throw 7; });
  const int color = d.integer();
  const auto part = c.split(color, d.integer());
  EXPECT_EQ(part.has_value(), color >= Communicator::kNoColor);
  EXPECT_TRUE(refused(c.grow(UniqueId(), d.one_of({-1, 0, 1, 1 << 21, std::numeric_limits<int>::max()}))));
  EXPECT_TRUE(c.agree(~std::uint64_t{0}));
  EXPECT_TRUE(c.status());
  EXPECT_EQ(c.last_choice().channels >= 0, true);
  EXPECT_EQ(c.rank(), 0);
  EXPECT_EQ(c.ranks(), 1);
  c.abort();
  EXPECT_FALSE(c.barrier());
  EXPECT_FALSE(c.finalize());
}

// An exception of the caller's, while a call waits, ends that call.
// A scope's function may be missing, throw, or change its mind; the innermost scope counts.
void scopes(Draws& d) {
  const int kind = d.one_of<int>({0, 1, 2});
  EXPECT_FALSE(Interruptible::asked());
  const Interruptible outer([] { return true; });
  EXPECT_TRUE(Interruptible::asked());
  {
    const Interruptible inner(kind == 0   ? std::function<bool()>()
                              : kind == 1 ? std::function<bool()>([] { return false; })
                                          : std::function<bool()>([]() -> bool { throw std::runtime_error("no"); }));
    EXPECT_EQ(Interruptible::asked(), kind == 2);
  }
  EXPECT_TRUE(Interruptible::asked());
}

void interrupts_that_throw(Draws&) {
  auto both = Communicator::threads(2).value();
  both[0].set_interrupt([]() -> bool { throw std::runtime_error("stop"); });
  const Status waited = both[0].barrier();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Code::kAborted);
}

void empty_objects(Draws& d) {
  Communicator c = empty();
  Buffers b;
  EXPECT_FALSE(c);
  EXPECT_EQ(c.rank(), -1);
  EXPECT_EQ(c.ranks(), 0);
  EXPECT_TRUE(refused(c.run(drawn(d, b))));
  EXPECT_TRUE(refused(c.start(drawn(d, b))));
  EXPECT_TRUE(refused(c.exchange({})));
  EXPECT_TRUE(refused(c.send(nullptr, 0, DataType::kInt8, 0, 0)));
  EXPECT_TRUE(refused(c.receive(nullptr, 0, DataType::kInt8, 0, 0)));
  EXPECT_TRUE(refused(c.allocate(8)));
  int word = 0;
  EXPECT_TRUE(refused(c.register_memory(&word, sizeof word)));
  EXPECT_TRUE(refused(c.barrier()));
  EXPECT_TRUE(refused(c.split(0)));
  EXPECT_TRUE(refused(c.shrink()));
  const std::vector<Rank> nobody{1};
  EXPECT_TRUE(refused(c.shrink(nobody)));
  EXPECT_TRUE(refused(c.agree(1)));
  EXPECT_TRUE(refused(c.grow(UniqueId(), 2)));
  EXPECT_TRUE(refused(c.set_timeout(std::chrono::seconds(1))));
  EXPECT_TRUE(refused(c.status()));
  EXPECT_TRUE(refused(c.monitored_barrier(std::chrono::seconds(1))));
  EXPECT_TRUE(refused(c.finalize()));
  c.set_interrupt({});
  c.abort();
  EXPECT_TRUE(refused(Work().test()));
  EXPECT_TRUE(refused(Work().wait()));
  EXPECT_TRUE(refused(Message().test()));
  EXPECT_TRUE(refused(Message().wait()));
  Group group;
  EXPECT_TRUE(group.start());
  group.add(c, Request());
  EXPECT_TRUE(refused(group.start()));
  group.send(c, std::span<const int>(), 0);
  group.receive(c, std::span<int>(), 0);
  EXPECT_TRUE(refused(group.run()));
  Memory memory;
  Memory other = std::move(memory);
  memory = std::move(other);
  EXPECT_EQ(memory.data(), nullptr);
  EXPECT_EQ(memory.size(), 0u);
  EXPECT_TRUE(memory.as<int>().empty());
  RegisteredMemory registered;
  RegisteredMemory moved = std::move(registered);
  registered = std::move(moved);
  EXPECT_FALSE(registered.shared());
}

void meetings(Draws& d) {
  const Rank ranks = d.one_of({std::numeric_limits<int>::min(), -1, 0, (1 << 20) + 1, std::numeric_limits<int>::max()});
  EXPECT_TRUE(refused(Communicator::threads(ranks)));
  EXPECT_TRUE(refused(Communicator::threads(d.one_of<Rank>({1025, 1 << 16, 1 << 20}))));
  EXPECT_TRUE(refused(MeetingPlace::open(ranks)));
  EXPECT_TRUE(refused(MeetingPlace::open(1, {.transport = "pigeon"})));
  EXPECT_TRUE(refused(MeetingPlace::open(1, {.timeout = std::chrono::milliseconds(-1)})));
  auto place = MeetingPlace::open(1);
  ASSERT_TRUE(place);
  EXPECT_TRUE(refused(Communicator::connect(place->id(), d.one_of({-1, 1, 7}), 1)));
  EXPECT_TRUE(refused(Communicator::connect(place->id(), 0, ranks)));
  EXPECT_TRUE(refused(Communicator::connect(UniqueId(), 0, 1)));
  EXPECT_TRUE(refused(Communicator::connect(place->id(), 0, 1, {.timeout = std::chrono::milliseconds::max()})));
  auto pending = Communicator::start_connect(UniqueId(), 0, 1);
  EXPECT_TRUE(refused(pending.take()));
  EXPECT_TRUE(refused(pending.take()));  // again
  EXPECT_TRUE(pending.ready());
  MeetingPlace moved = std::move(*place);
  EXPECT_EQ(place->id(), UniqueId());
  *place = std::move(moved);
  EXPECT_NE(place->id(), UniqueId());
  const std::string text = UniqueId().text();
  EXPECT_TRUE(UniqueId::parse(text.substr(1)).error().blame == Blame::kInput);
  EXPECT_TRUE(refused(UniqueId::parse(std::string(256, 'x'))));
}

}  // namespace

std::vector<Try> tries_of_communicators() {
  return {
      {{"weft::Communicator::run", "weft::Communicator::start", "weft::Group::add", "weft::Group::run"},
       collectives,
       3000},
      {{"weft::Communicator::run"}, collectives_of_two, 300},
      {{"weft::Communicator::run"}, uneven, 300},
      {{"weft::Communicator::exchange", "weft::Work::wait", "weft::Work::wait_for"}, transfers, 600},
      {{"weft::Communicator::send", "weft::Communicator::receive", "weft::Communicator::start_send",
        "weft::Communicator::start_receive", "weft::Message::test", "weft::Message::wait"},
       tagged,
       600},
      {{"weft::Communicator::all_reduce", "weft::Communicator::all_gather", "weft::Communicator::reduce_scatter",
        "weft::Communicator::broadcast"},
       typed_calls,
       300},
      {{"weft::Communicator::allocate", "weft::Communicator::register_memory", "weft::RegisteredMemory::shared",
        "weft::RegisteredMemory::~RegisteredMemory", "weft::Communicator::set_timeout",
        "weft::Communicator::set_interrupt", "weft::Communicator::split", "weft::Communicator::grow",
        "weft::Communicator::agree", "weft::Communicator::status", "weft::Communicator::last_choice",
        "weft::Communicator::rank", "weft::Communicator::ranks", "weft::Communicator::abort",
        "weft::Communicator::barrier", "weft::Communicator::finalize", "weft::Communicator::monitored_barrier"},
       rest_of_a_communicator},
      {{"weft::Communicator::set_interrupt"}, interrupts_that_throw, 1},
      {{"weft::Interruptible::Interruptible", "weft::Interruptible::~Interruptible", "weft::Interruptible::asked"},
       scopes,
       4},
      {{"weft::Communicator::operator bool", "weft::Communicator::Communicator", "weft::Communicator::shrink",
        "weft::Work::test", "weft::Group::start", "weft::Group::send", "weft::Group::receive", "weft::Memory::Memory",
        "weft::Memory::operator=", "weft::Memory::~Memory", "weft::Memory::data", "weft::Memory::size",
        "weft::Memory::as", "weft::RegisteredMemory::RegisteredMemory", "weft::RegisteredMemory::operator="},
       empty_objects,
       4},
      {{"weft::Communicator::threads", "weft::Communicator::connect", "weft::Communicator::start_connect",
        "weft::MeetingPlace::open", "weft::MeetingPlace::MeetingPlace", "weft::MeetingPlace::operator=",
        "weft::MeetingPlace::~MeetingPlace", "weft::MeetingPlace::id", "weft::UniqueId::text", "weft::UniqueId::parse",
        "weft::Pending::Pending", "weft::Pending::ready", "weft::Pending::take"},
       meetings,
       5},
  };
}

}  // namespace weft::tests
