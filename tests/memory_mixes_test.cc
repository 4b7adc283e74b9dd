// Whether a rank's buffers are memory from allocate(), registered where it is or any other is its own affair: every
// mix, in place and not, by rank and by call, gives the right result.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

#include "tests/connected_job.h"

namespace weft {
namespace {

using Element = std::uint32_t;

// Of rank `from` for block `block`.
Element value(Rank from, std::size_t block, std::size_t at) {
  return static_cast<Element>(from) * 1000003u + static_cast<Element>(block) * 7919u + static_cast<Element>(at) * 31u +
         1u;
}
Element sum(Rank ranks, std::size_t block, std::size_t at) {
  Element all = 0;
  for (Rank r = 0; r < ranks; ++r) all += value(r, block, at);
  return all;
}

// What all ranks call alike.
struct Shape {
  Collective collective = Collective::kAllReduce;
  std::size_t count = 0;
  Rank root = 0;
  std::string algorithm;

  bool uneven() const { return collective >= Collective::kAllGatherV; }
};

// One rank's side: blocks of its input and of its output.
struct Side {
  std::vector<std::size_t> in, out;     // elements of each block
  std::size_t own_in = 0, own_out = 0;  // the block of the larger that the smaller is in place
  std::vector<Element> given, expected;
  std::vector<std::size_t> counts, receive_counts;
};

// Of all_to_all_v: what `from` sends `to`.
std::size_t crossing(const Shape& s, Rank from, Rank to) {
  return s.count + static_cast<std::size_t>((from * 3 + to * 5) % 4);
}

Side side_of(const Shape& s, Rank self, Rank n) {
  using enum Collective;
  const auto ranks = static_cast<std::size_t>(n), own = static_cast<std::size_t>(self);
  const bool is_root = self == s.root;
  Side side;
  const std::vector<std::size_t> one{s.count}, all(ranks, s.count), none;
  std::vector<std::size_t> counts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) counts[r] = s.count + r % 3;
  const auto reduces = [&](std::size_t first, const std::vector<std::size_t>& blocks) {
    for (std::size_t b = 0; b < blocks.size(); ++b)
      for (std::size_t i = 0; i < blocks[b]; ++i) side.expected.push_back(sum(n, first + b, i));
  };
  const auto gathers = [&](const std::vector<std::size_t>& blocks, auto&& source) {
    for (std::size_t b = 0; b < blocks.size(); ++b)
      for (std::size_t i = 0; i < blocks[b]; ++i) side.expected.push_back(source(b, i));
  };
  side.in = one, side.out = one;
  std::size_t first = 0;  // the block of value() that the input begins with
  switch (s.collective) {
    case kAllReduce:
      reduces(0, side.out);
      break;
    case kReduce:
      if (!is_root) side.out = none;
      reduces(0, side.out);
      break;
    case kBroadcast:
      if (!is_root) side.in = none;
      gathers(side.out, [&](std::size_t, std::size_t i) { return value(s.root, 0, i); });
      break;
    case kAllGather:
    case kAllGatherV:
    case kGather:
      if (s.uneven()) side.in = {counts[own]};
      side.out = s.collective == kGather && !is_root ? none : s.uneven() ? counts : all;
      side.own_out = own;
      gathers(side.out, [&](std::size_t b, std::size_t i) { return value(static_cast<Rank>(b), 0, i); });
      break;
    case kReduceScatter:
    case kReduceScatterV:
      side.in = s.uneven() ? counts : all;
      side.out = {side.in[own]};
      side.own_in = own;
      reduces(own, side.out);
      break;
    case kScatter:
      side.in = is_root ? all : none;
      side.own_in = own;
      gathers(side.out, [&](std::size_t, std::size_t i) { return value(s.root, own, i); });
      break;
    case kAllToAll:
      side.in = side.out = all;
      gathers(side.out, [&](std::size_t b, std::size_t i) { return value(static_cast<Rank>(b), own, i); });
      break;
    case kAllToAllV:
      for (Rank r = 0; r < n; ++r) {
        side.counts.push_back(crossing(s, self, r));
        side.receive_counts.push_back(crossing(s, r, self));
      }
      side.in = side.counts, side.out = side.receive_counts;
      gathers(side.out, [&](std::size_t b, std::size_t i) { return value(static_cast<Rank>(b), own, i); });
      break;
    case kSendReceive:
      gathers(side.out, [&](std::size_t, std::size_t i) { return value((self + n - 1) % n, 0, i); });
      break;
    case kBarrier:
      side.in = side.out = none;
  }
  for (std::size_t b = 0; b < side.in.size(); ++b)
    for (std::size_t i = 0; i < side.in[b]; ++i) side.given.push_back(value(self, first + b, i));
  if (s.collective == kAllGatherV || s.collective == kReduceScatterV) side.counts = counts;
  return side;
}

// Memory of each kind, and which of it a call gets.
class Places {
 public:
  static constexpr std::size_t kElements = 1 << 18;  // of either buffer
  explicit Places(Communicator& comm) {
    auto memory = comm.allocate(2 * kElements * sizeof(Element));
    if (memory) registered_ = std::move(*memory);
    if (posix_memalign(&plain_, 4096, kBytes) != 0) std::abort();
  }
  ~Places() {
    here_ = RegisteredMemory();
    std::free(plain_);
  }
  // The plain memory is registered where it is, or no more: some of it.
  void turn(Communicator& comm, unsigned draw) {
    here_ = RegisteredMemory();
    if (draw % 3 == 0) return;
    const std::size_t from = draw % 3 == 1 ? 0 : kBytes / 2;
    auto registered = comm.register_memory(static_cast<std::byte*>(plain_) + from, kBytes / (1 + draw / 3 % 2) - from);
    if (registered) here_ = std::move(*registered);
  }
  Element* buffer(bool registered, int which) {
    Element* const base = registered ? registered_.as<Element>().data() : static_cast<Element*>(plain_);
    return base + static_cast<std::size_t>(which) * kElements;
  }

 private:
  static constexpr std::size_t kBytes = 2 * kElements * sizeof(Element);
  Memory registered_;
  void* plain_ = nullptr;
  RegisteredMemory here_;
};

struct Kind {
  bool in_registered = true, out_registered = true, in_place = false;
};

// Empty, or what was wrong.
std::string call(Communicator& comm, Places& places, const Shape& s, Kind kind, bool starts) {
  Side side = side_of(s, comm.rank(), comm.ranks());
  Request r{.collective = s.collective, .count = s.uneven() ? 0 : s.count, .type = DataType::kUint32, .root = s.root};
  r.counts = side.counts;
  r.receive_counts = side.receive_counts;
  r.algorithm = s.algorithm;
  Element* in = places.buffer(kind.in_registered, 0);
  Element* out = places.buffer(kind.out_registered, 1);
  if (kind.in_place && s.collective != Collective::kAllToAllV && !side.in.empty() && !side.out.empty()) {
    const auto before = [](const std::vector<std::size_t>& blocks, std::size_t own) {
      return std::accumulate(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(own), std::size_t{0});
    };
    if (side.out.size() > side.in.size())
      in = out + before(side.out, side.own_out);
    else if (side.in.size() > side.out.size())
      out = in + before(side.in, side.own_in);
    else
      in = out;
  }
  if (!side.in.empty()) std::memcpy(in, side.given.data(), side.given.size() * sizeof(Element));
  r.in = side.in.empty() ? nullptr : in;
  r.out = side.out.empty() ? nullptr : out;
  if (starts) {
    auto work = comm.start(r);
    if (!work) return work.error().message;
    if (const Status done = work->wait(); !done) return done.error().message;
  } else if (const Status done = comm.run(r); !done) {
    return done.error().message;
  }
  for (std::size_t i = 0; i < side.expected.size(); ++i)
    if (out[i] != side.expected[i])
      return fmt::format("rank {}: collective {}, element {} is {} instead of {}", comm.rank(),
                         static_cast<int>(s.collective), i, out[i], side.expected[i]);
  return "";
}

std::vector<Shape> shapes(Rank ranks, bool forced) {
  std::vector<Shape> all;
  for (int c = 0; c < kCollectiveKinds; ++c) {
    const auto collective = static_cast<Collective>(c);
    // What experts get is experts_test's.
    if (collective == Collective::kBarrier || collective >= Collective::kDispatch) continue;
    for (const std::size_t count : {1, 300, 9000, 40000})
      all.push_back({collective, count, static_cast<Rank>((c + static_cast<int>(count)) % ranks), ""});
  }
  if (forced)  // that load and store peers' memory, whatever would be chosen
    for (const std::size_t count : {100, 40000}) {
      all.push_back({Collective::kAllReduce, count, 0, "two_shot"});
      all.push_back({Collective::kAllGather, count, 0, "direct"});
    }
  return all;
}

std::string mixes(Communicator& comm, bool forced) {
  Places places(comm);
  std::mt19937 own(static_cast<unsigned>(comm.rank()) + 7), common(11);
  const std::vector<Shape> all = shapes(comm.ranks(), forced);
  // First calls are of one kind, so that ranks agree on it; then each rank has its own.
  for (int round = 0; round < 10; ++round)
    for (const Shape& s : all) {
      const bool starts = common() % 4 == 0;
      if (own() % 5 == 0) places.turn(comm, static_cast<unsigned>(own()));
      Kind kind{own() % 2 == 0, own() % 2 == 0, own() % 2 == 0};
      if (round < 4) kind = {true, true, round % 2 == 1};
      if (const std::string wrong = call(comm, places, s, kind, starts); !wrong.empty())
        return fmt::format("round {}, count {}, algorithm '{}': {}", round, s.count, s.algorithm, wrong);
    }
  return "";
}

// Pages of shared memory that this process has touched, in bytes.
std::size_t shared_pages() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::size_t kib = 0; word == "RssShmem:" && status >> kib) return kib << 10;
  return 0;
}

// Every second call of a shape is on plain memory: then no call copies that into memory of the job's.
std::string alternates(Communicator& comm) {
  constexpr std::size_t kCount = 2 << 20;
  auto registered = comm.allocate(kCount * sizeof(Element));
  if (!registered) return registered.error().message;
  std::vector<Element> plain(kCount, 1);
  std::ranges::fill(registered->as<Element>(), 1u);
  std::size_t before = 0;
  for (int i = 0; i < 40; ++i) {
    Element* const data = i % 2 == 0 ? plain.data() : registered->as<Element>().data();
    const Request r{
        .collective = Collective::kBroadcast, .in = data, .out = data, .count = kCount, .type = DataType::kUint32};
    if (const Status done = comm.run(r); !done) return done.error().message;
    if (i == 1) before = shared_pages();
  }
  const std::size_t after = shared_pages();
  return after < before + kCount * sizeof(Element) / 2 ? "" : fmt::format("{} bytes, {} before", after, before);
}

TEST(MemoryMixesOfCalls, WherePlainAndRegisteredCallsAlternateNothingIsCopiedIntoTheJobsMemory) {
  tests::ConnectedJob job(2, {.transport = "shm"},
                          [](Communicator& c, tests::Report&, tests::NoticeBoard&) { return alternates(c); });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "");
}

class MemoryMixes : public testing::TestWithParam<std::tuple<const char*, Rank>> {};

TEST_P(MemoryMixes, AnyMixOfRegisteredAndPlainMemoryGivesTheRightResult) {
  const auto [transport, ranks] = GetParam();
  const bool shares = std::string(transport) == "shm";
  ConnectOptions options{.transport = transport, .node = std::string(transport) == "shm+tcp" ? "mixes" : ""};
  tests::ConnectedJob job(ranks, options,
                          [&](Communicator& c, tests::Report&, tests::NoticeBoard&) { return mixes(c, shares); });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "");
}

INSTANTIATE_TEST_SUITE_P(All, MemoryMixes,
                         testing::Combine(testing::Values("shm", "tcp", "shm+tcp"), testing::Range(2, 6)),
                         [](const auto& info) {
                           std::string name = fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

TEST(MemoryMixesOfThreads, AnyMixGivesTheRightResult) {
  for (const Rank ranks : {2, 3, 5}) {
    auto comms = Communicator::threads(ranks);
    ASSERT_TRUE(comms) << comms.error().message;
    std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (Communicator& c : *comms)
      threads.emplace_back([&] { wrong[static_cast<std::size_t>(c.rank())] = mixes(c, true); });
    for (std::thread& t : threads) t.join();
    for (const std::string& w : wrong) EXPECT_EQ(w, "");
  }
}

}  // namespace
}  // namespace weft
