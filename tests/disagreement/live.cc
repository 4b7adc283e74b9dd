#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "net/mixed/mixed.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"
#include "net/threads/threads.h"
#include "net/ucx/ucx.h"
#include "schedule/collective.h"
#include "schedule/element.h"
#include "session/session.h"
#include "tests/communicators.h"
#include "tests/disagreement/case.h"
#include "tests/processes.h"

namespace weft::disagreement {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{3};  // of every wait; a disagreement must be noticed without it
constexpr std::size_t kGuard = 64;           // bytes on either side of an output
constexpr std::byte kCanary{0xa5};

// What rank `from` gives to whom, at i: `to` counts in all_to_all only.
std::uint64_t input(const Call& c, Rank from, Rank to, std::size_t i) {
  Random random(c.salt + static_cast<std::uint64_t>(from) * 1000003 + static_cast<std::uint64_t>(to) * 7919 + i);
  return random.below(200);
}

bool per_pair(Collective c) { return c == Collective::kAllToAll || c == Collective::kAllToAllV; }

template <class T>
T combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kProd:
      return static_cast<T>(a * b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kAnd:
      return static_cast<T>(a & b);
    case ReduceOp::kOr:
      return static_cast<T>(a | b);
    case ReduceOp::kXor:
      return static_cast<T>(a ^ b);
    default:
      return static_cast<T>(a + b);
  }
}

template <class T>
T combined(const Call& c, Rank n, std::size_t i) {
  T value = static_cast<T>(input(c, 0, 0, i));
  for (Rank r = 1; r < n; ++r) value = combine(c.op, value, static_cast<T>(input(c, r, 0, i)));
  return c.op == ReduceOp::kAvg ? static_cast<T>(value / static_cast<T>(n)) : value;
}

// One rank's buffers of a call, with canaries around the output, and what must be in them afterwards.
template <class T>
class Buffers {
 public:
  Buffers(const Call& c, Rank self, Rank n, Communicator& comm) {
    std::vector<T> in;
    fill(c, self, n, in);
    const std::size_t part = expected_.size() < in.size() ? offset_in_larger(c, self) : 0;
    const std::size_t in_part = in.size() < expected_.size() ? offset_in_larger(c, self) : 0;
    const bool in_place = c.place == Call::Place::kInPlace, overlaps = c.place == Call::Place::kOverlapping;
    const std::size_t largest = std::max(in.size(), expected_.size());
    const std::size_t elements = in_place ? largest : in.size() + expected_.size() + kGap;
    const std::size_t bytes = elements * sizeof(T) + 2 * kGuard;
    std::byte* memory = nullptr;
    if (c.place == Call::Place::kRegistered) {
      if (auto allocated = comm.allocate(bytes)) registered_ = std::move(*allocated);
      memory = static_cast<std::byte*>(registered_.data());
    }
    if (memory == nullptr) {
      own_.resize(bytes);
      memory = own_.data();
    }
    std::fill_n(memory, bytes, kCanary);
    T* const first = reinterpret_cast<T*>(memory + kGuard);
    in_ = first + (in_place ? in_part : 0);
    out_ = in_place ? first + part : overlaps ? first + 1 : first + in.size() + kGap / 2;
    if (in_place && in.empty()) in_ = first;
    if (in_place && expected_.empty()) out_ = first;
    std::copy(in.begin(), in.end(), in_);
    memory_ = {memory, bytes};
    before_.assign(memory, memory + bytes);
    if (in_place) covered_ = {in_, in_ + in.size()};
  }

  Request request(const Call& c) {
    return {.collective = c.collective,
            .in = in_,
            .out = out_,
            .count = c.count,
            .counts = c.counts,
            .receive_counts = c.receive_counts,
            .type = c.type,
            .op = c.op,
            .root = c.root,
            .algorithm = c.algorithm,
            .protocol = c.protocol,
            .channels = c.channels};
  }
  Transfer transfer(const Call& c) {
    const bool sends = c.kind == Call::Kind::kSend;
    return {sends ? Transfer::Direction::kSend : Transfer::Direction::kReceive, c.root, sends ? in_ : out_, c.count,
            c.type};
  }

  // Empty, or which byte beside the output was written.
  std::string damage() const {
    const auto inside = [&](const std::byte* at, const T* begin, const T* end) {
      return at >= reinterpret_cast<const std::byte*>(begin) && at < reinterpret_cast<const std::byte*>(end);
    };
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const std::byte* at = memory_.data() + i;
      if (*at == before_[i] || inside(at, out_, out_ + expected_.size()) || inside(at, covered_.first, covered_.second))
        continue;
      return fmt::format("byte {} of {} beside the output was written", at - reinterpret_cast<const std::byte*>(out_),
                         expected_.size() * sizeof(T));
    }
    return "";
  }
  std::string verdict() const {
    for (std::size_t i = 0; i < expected_.size(); ++i)
      if (out_[i] != expected_[i])
        return fmt::format("ok, but element {} of {} is {} instead of {}", i, expected_.size(), +out_[i],
                           +expected_[i]);
    return "";
  }

 private:
  static constexpr std::size_t kGap = 64;

  static std::size_t offset_in_larger(const Call& c, Rank self) {
    if (c.counts.empty()) return c.count * static_cast<std::size_t>(self);
    std::size_t offset = 0;
    for (Rank r = 0; r < self; ++r) offset += c.counts[static_cast<std::size_t>(r)];
    return offset;
  }
  static std::size_t part_of(const Call& c, Rank r) {
    return c.counts.empty() ? c.count : c.counts[static_cast<std::size_t>(r)];
  }

  void fill(const Call& c, Rank self, Rank n, std::vector<T>& in) {
    const auto value = [&](Rank from, Rank to, std::size_t i) { return static_cast<T>(input(c, from, to, i)); };
    const auto give = [&](Rank to, std::size_t begin, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) in.push_back(value(self, to, begin + i));
    };
    const auto get = [&](Rank from, Rank to, std::size_t begin, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) expected_.push_back(value(from, to, begin + i));
    };
    const auto sum = [&](std::size_t begin, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) expected_.push_back(combined<T>(c, n, begin + i));
    };
    const bool is_root = self == c.root;
    if (c.kind == Call::Kind::kSend) return give(0, 0, c.count);
    if (c.kind == Call::Kind::kReceive) return get(c.root, 0, 0, c.count);
    std::size_t all = 0;
    for (Rank r = 0; r < n; ++r) all += c.counts.empty() ? c.count : c.counts[static_cast<std::size_t>(r)];
    switch (c.collective) {
      case Collective::kBarrier:
        return;
      case Collective::kAllReduce:
        give(0, 0, c.count);
        return sum(0, c.count);
      case Collective::kReduce:
        give(0, 0, c.count);
        return is_root ? sum(0, c.count) : void();
      case Collective::kReduceScatter:
      case Collective::kReduceScatterV:
        give(0, 0, all);
        return sum(offset_in_larger(c, self), part_of(c, self));
      case Collective::kBroadcast:
        if (is_root) give(0, 0, c.count);
        return get(c.root, 0, 0, c.count);
      case Collective::kSendReceive:
        give(0, 0, c.count);
        return get((self + n - 1) % n, 0, 0, c.count);
      case Collective::kAllGather:
      case Collective::kAllGatherV:
      case Collective::kGather:
        give(0, 0, part_of(c, self));
        for (Rank r = 0; r < n && (c.collective != Collective::kGather || is_root); ++r) get(r, 0, 0, part_of(c, r));
        return;
      case Collective::kScatter:
        for (Rank r = 0; r < n && is_root; ++r) give(r, 0, c.count);
        return get(c.root, self, 0, c.count);
      case Collective::kAllToAll:
      case Collective::kAllToAllV:
        for (Rank r = 0; r < n; ++r) give(r, 0, part_of(c, r));
        for (Rank r = 0; r < n; ++r)
          get(r, self, 0, c.counts.empty() ? c.count : c.receive_counts[static_cast<std::size_t>(r)]);
        return;
    }
  }

  std::vector<T> expected_;
  std::vector<std::byte> own_, before_;
  Memory registered_;
  std::span<const std::byte> memory_;
  T *in_ = nullptr, *out_ = nullptr;
  std::pair<const T*, const T*> covered_ = {};  // of a call in place: the input
};

template <class T>
Status make(const Call& c, Communicator& comm, std::string& wrong) {
  Buffers<T> buffers(c, comm.rank(), comm.ranks(), comm);
  Status s;
  if (c.kind == Call::Kind::kCollective) {
    s = comm.run(buffers.request(c));
  } else {
    const Transfer transfer = buffers.transfer(c);
    s = comm.exchange({&transfer, 1});
  }
  if (wrong.empty()) wrong = buffers.damage();
  if (s && wrong.empty()) wrong = buffers.verdict();
  if (!wrong.empty()) wrong = fmt::format("rank {}: {}: {}", comm.rank(), c.text(), wrong);
  return s;
}

Status make(const Call& c, Communicator& comm, std::string& wrong) {
  switch (c.type) {
    case DataType::kInt64:
      return make<std::int64_t>(c, comm, wrong);
    case DataType::kUint8:
      return make<std::uint8_t>(c, comm, wrong);
    case DataType::kUint16:
      return make<std::uint16_t>(c, comm, wrong);
    default:
      return make<std::int32_t>(c, comm, wrong);
  }
}

struct Life {
  std::string wrong;
  Status ended;
  bool refused = false;
};

// Everybody starts its ends of the messages in an order of its own, with an equal sum on the way. Of those that do not
// fit only the ends learn it. `sum`: false: the communicator is broken.
Status exchange_letters(const Case& c, Communicator& comm, std::string& wrong, const std::function<bool()>& sum) {
  struct End {
    const Letter* letter;
    bool sends;
    std::vector<std::uint32_t> data;
    Message message;
  };
  std::vector<End> ends;
  for (const Letter& l : c.letters)
    for (const bool sends : {true, false})
      if ((sends ? l.from : l.to) == comm.rank()) ends.push_back({&l, sends, {}, {}});
  Random random(c.seed * 31 + static_cast<std::uint64_t>(comm.rank()));
  for (std::size_t i = ends.size(); i > 1; --i) std::swap(ends[i - 1], ends[random.below(i)]);
  const auto value = [](const Letter& l, std::size_t i) {
    return static_cast<std::uint32_t>(l.tag) * 1000003u + static_cast<std::uint32_t>(i);
  };
  constexpr std::uint32_t kUntouched = 0xa5a5a5a5;
  const auto start = [&](End& e) -> Status {
    const Letter& l = *e.letter;
    e.data.assign(e.sends ? l.count : l.room + 8, kUntouched);
    for (std::size_t i = 0; e.sends && i < l.count; ++i) e.data[i] = value(l, i);
    auto started = e.sends
                       ? comm.start_send(e.data.data(), l.count, DataType::kInt32, l.to, l.tag)
                       : comm.start_receive(e.data.data(), l.room, l.other_type ? DataType::kUint32 : DataType::kInt32,
                                            l.any ? kAnySource : l.from, l.tag);
    if (!started) return tl::make_unexpected(started.error());
    e.message = std::move(*started);
    return {};
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == ends.size() / 2 && !sum()) return {};
    WEFT_CHECK(start(ends[i]));
  }
  if (ends.empty() && !sum()) return {};
  for (End& e : ends) {
    const Letter& l = *e.letter;
    const auto got = e.message.wait();
    if (!got && got.error().blame == Blame::kCommunicator) return tl::make_unexpected(got.error());
    const bool reported = !got && got.error().code == Code::kMismatch;
    if (e.sends ? !(got || (reported && !l.fits())) : l.fits() != got.has_value() || (!l.fits() && !reported))
      wrong = got ? "ok" : got.error().message;
    if (e.sends && wrong.empty()) continue;
    if (!e.sends && got && (got->count != l.count || got->source != l.from || got->tag != l.tag))
      wrong = fmt::format("{} of rank {}, tag {}", got->count, got->source, got->tag);
    for (std::size_t i = 0; i < e.data.size() && !e.sends && wrong.empty(); ++i)
      if (e.data[i] != (got && i < l.count ? value(l, i) : kUntouched)) wrong = fmt::format("element {} is wrong", i);
    if (!wrong.empty()) {
      wrong = fmt::format("rank {}: {} message {}: {}", comm.rank(), e.sends ? "sent" : "received", l.text(), wrong);
      return {};
    }
  }
  return {};
}

Life context(const Case& c, Communicator& comm) {
  Life life;
  const auto self = static_cast<std::size_t>(comm.rank());
  Random salts(c.seed);
  const auto sums = [&](int calls) {
    for (int i = 0; i < calls && life.ended && life.wrong.empty(); ++i)
      life.ended =
          make({.count = 300, .algorithm = "ring", .protocol = c.protocol, .salt = salts.next()}, comm, life.wrong);
  };
  sums(c.before);
  std::this_thread::sleep_for(std::chrono::milliseconds(c.late_ms[self]));
  for (const Call& call : c.calls[self]) {
    if (!life.ended || !life.wrong.empty()) break;
    const Status s = make(call, comm, life.wrong);
    if (!s && s.error().code == Code::kInvalidArgument)
      life.refused = true;  // nothing was done
    else
      life.ended = s;
  }
  if (!c.letters.empty() && life.ended && life.wrong.empty()) {
    const Status s = exchange_letters(c, comm, life.wrong, [&] {
      sums(1);
      return life.ended.has_value() && life.wrong.empty();
    });
    if (life.ended) life.ended = s;
  }
  sums(c.after);
  if (life.ended && life.wrong.empty()) life.ended = comm.finalize();
  return life;
}

template <class World>
Communicator communicator(std::unique_ptr<World> world, Rank ranks) {
  return Communicator(std::make_shared<session::Session>(std::make_unique<exec::WorldExecutor<World>>(std::move(world)),
                                                         ranks, tests::forcing_chooser()));
}

class Meetings {
 public:
  Meetings(const Case& c) : ranks_(c.ranks), over_(c.over), id_(tests::fresh_id("disagreement")) {
    if (c.over == Over::kThreads) {
      threads_ = tests::thread_communicators(c.ranks, limits());
    } else if (c.over != Over::kShm) {
      host_ = net::bootstrap::Host::open(net::bootstrap::loopback(), c.ranks).value();
      serving_ = std::thread([this] { (void)host_->serve(std::chrono::seconds(20)); });
    }
  }
  ~Meetings() {
    if (serving_.joinable()) serving_.join();
  }
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;

  Result<Communicator> join(Rank r) {
    if (over_ == Over::kThreads) return std::move(threads_[static_cast<std::size_t>(r)]);
    if (over_ == Over::kShm) {
      WEFT_TRY(
          auto world,
          net::shm::attach({.id = id_, .rank = r, .ranks = ranks_, .heap_bytes = Bytes{1} << 22, .limits = limits()}));
      return communicator(std::move(world), ranks_);
    }
    const std::string node = over_ == Over::kMixed ? fmt::format("{}-{}", id_, r / 2) : "";
    WEFT_TRY(auto meeting, net::bootstrap::meet({.id = host_->id(), .rank = r, .ranks = ranks_, .node = node}));
    const net::messages::WaitPolicy::Limits far{.spins = 1, .timeout = kTimeout};
    if (over_ == Over::kUcx) {
      WEFT_TRY(auto context, net::ucx::open_context());
      WEFT_TRY(auto world, net::ucx::open(std::move(context), std::move(meeting), r, far));
      return communicator(std::move(world), ranks_);
    }
    const auto across = [far](net::bootstrap::Meeting met, Rank rank) -> Result<std::unique_ptr<net::messages::World>> {
      return net::tcp::open(std::move(met), rank, {}, far);
    };
    if (over_ == Over::kMixed) {
      WEFT_TRY(auto world,
               net::mixed::open(std::move(meeting), r, {.name = "shm+tcp", .across = across, .limits = far}));
      return communicator(std::move(world), ranks_);
    }
    WEFT_TRY(auto world, across(std::move(meeting), r));
    return communicator(std::move(world), ranks_);
  }

 private:
  static net::memory::WaitPolicy::Limits limits() { return {.spins = 50, .timeout = kTimeout}; }

  Rank ranks_;
  Over over_;
  std::string id_;
  std::vector<Communicator> threads_;
  std::optional<net::bootstrap::Host> host_;
  std::thread serving_;
};

std::string judge(const Case& c, const std::vector<Life>& lives, std::chrono::duration<double> took, Verdict& v) {
  bool noticed = false, refused = false;
  const bool transfers = std::ranges::any_of(
      c.calls, [](const auto& calls) { return !calls.empty() && calls[0].kind != Call::Kind::kCollective; });
  for (std::size_t r = 0; r < lives.size(); ++r) {
    const Life& life = lives[r];
    if (!life.wrong.empty()) return life.wrong;
    refused |= life.refused;
    if (life.ended) continue;
    noticed = true;
    const Error& e = life.ended.error();
    v.mismatched |= e.code == Code::kMismatch;
    v.explained |= !e.field.empty();
    v.by_timeout |= e.code == Code::kTimeout;
    if (e.code == Code::kInternal || e.code == Code::kSystem) return e.message;
    if (e.message.find(fmt::format("broken: rank {} ", r)) != std::string::npos)
      return fmt::format("rank {} is reported of itself: {}", r, e.message);
    if (c.agrees && c.change != "overlap") return fmt::format("rank {}: equal calls failed: {}", r, e.message);
  }
  if (c.change == "overlap" && noticed && !refused) return "equal calls failed, and no rank's were refused";
  if (!c.agrees && !noticed && !refused) return "no rank noticed";
  // A message that one end takes for empty does not exist for the other: then only time shows that it is missing.
  const bool may_be_empty = transfers || c.change == "counts of a pair";
  if (v.by_timeout && !may_be_empty) return fmt::format("noticed by a timeout only, after {:.1f} s", took.count());
  return "";
}

}  // namespace

Verdict live(const Case& c) {
  const auto begin = Clock::now();
  std::vector<Life> lives(static_cast<std::size_t>(c.ranks));
  {
    Meetings meetings(c);
    std::vector<std::thread> threads;
    for (Rank r = 0; r < c.ranks; ++r)
      threads.emplace_back([&, r] {
        auto comm = meetings.join(r);
        Life& life = lives[static_cast<std::size_t>(r)];
        if (!comm)
          life.wrong = comm.error().message;
        else
          life = context(c, *comm);
      });
    for (std::thread& t : threads) t.join();
  }
  Verdict v;
  v.wrong = judge(c, lives, Clock::now() - begin, v);
  for (const Life& life : lives) v.said.push_back(life.ended ? "" : life.ended.error().message);
  return v;
}

}  // namespace weft::disagreement
