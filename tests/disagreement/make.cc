#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/schedule/collective.h"
#include "tests/disagreement/case.h"
#include "tests/disagreement/life.h"

namespace weft::disagreement {
namespace {

constexpr std::size_t kGuard = 64;  // bytes on either side of an output
constexpr std::byte kCanary{0xa5};

// What rank `from` gives to whom, at i: `to` counts in all_to_all only.
std::uint64_t input(const Call& c, Rank from, Rank to, std::size_t i) {
  Random random(c.salt + static_cast<std::uint64_t>(from) * 1000003 + static_cast<std::uint64_t>(to) * 7919 + i);
  return random.below(200);
}

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
  // As a program may do with its memory once its call has failed.
  void use_otherwise() { std::ranges::fill(memory_, std::byte{0x5a}); }
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
  std::span<std::byte> memory_;
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
  if (!s && s.error().code != Code::kInvalidArgument) buffers.use_otherwise();
  if (!wrong.empty()) wrong = fmt::format("rank {}: {}: {}", comm.rank(), c.text(), wrong);
  return s;
}

}  // namespace

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

}  // namespace weft::disagreement
