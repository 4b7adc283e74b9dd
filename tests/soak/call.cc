#include "tests/soak/call.h"

#include <fmt/format.h>

#include <vector>

#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"
#include "weft/low_precision.h"

namespace weft::soak {
namespace {

constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kReduce,    Collective::kReduceScatter,
                                 Collective::kAllGather, Collective::kBroadcast, Collective::kGather,
                                 Collective::kScatter,   Collective::kAllToAll,  Collective::kSendReceive,
                                 Collective::kBarrier};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kAnd, ReduceOp::kOr,   ReduceOp::kXor};
constexpr std::uint64_t kMostElements = 200000;

template <class Visitor>
auto with_type(DataType type, Visitor&& visit) {
  switch (type) {
    case DataType::kInt8:
      return visit(std::int8_t{});
    case DataType::kInt16:
      return visit(std::int16_t{});
    case DataType::kInt32:
      return visit(std::int32_t{});
    case DataType::kInt64:
      return visit(std::int64_t{});
    case DataType::kUint8:
      return visit(std::uint8_t{});
    case DataType::kUint16:
      return visit(std::uint16_t{});
    case DataType::kUint32:
      return visit(std::uint32_t{});
    case DataType::kUint64:
      return visit(std::uint64_t{});
    case DataType::kFloat16:
      return visit(Float16{});
    case DataType::kBfloat16:
      return visit(Bfloat16{});
    case DataType::kFloat32:
      return visit(float{});
    case DataType::kFloat64:
      return visit(double{});
    case DataType::kFloat8E4M3:
      return visit(Float8E4M3{});
    case DataType::kFloat8E5M2:
      break;
  }
  return visit(Float8E5M2{});
}

// Whole numbers that an element type of this size holds exactly.
std::uint64_t range_of(DataType type) {
  if (size_of(type) == 1) return is_float(type) ? 8 : 100;
  return size_of(type) == 2 ? (type == DataType::kBfloat16 ? 256 : 2000) : 1 << 20;
}

// What rank r has at i. Sums and products of up to eight of them are exact in every type.
std::uint64_t input(const Call& c, Rank r, std::size_t i) {
  Random random(c.salt + static_cast<std::uint64_t>(r) * 1000003 + i);
  if (!schedule::reduces(c.collective)) return random.below(range_of(c.type));
  if (c.op == ReduceOp::kSum) return random.below(2);
  if (c.op == ReduceOp::kProd) return 1 + random.below(2);
  return random.below(4);
}

std::uint64_t combine(ReduceOp op, std::uint64_t a, std::uint64_t b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kAnd:
      return a & b;
    case ReduceOp::kOr:
      return a | b;
    case ReduceOp::kXor:
      return a ^ b;
    default:
      return a + b;
  }
}

std::uint64_t combined(const Call& c, Rank ranks, std::size_t i) {
  std::uint64_t value = input(c, 0, i);
  for (Rank r = 1; r < ranks; ++r) value = combine(c.op, value, input(c, r, i));
  return value;
}

struct Sizes {
  std::size_t in, out;  // elements of this rank's buffers
};

Sizes sizes_of(const Call& c, Rank self, Rank n) {
  const std::size_t all = c.count * static_cast<std::size_t>(n);
  const bool is_root = self == c.root;
  switch (c.collective) {
    case Collective::kReduce:
      return {c.count, is_root ? c.count : 0};
    case Collective::kReduceScatter:
      return {all, c.count};
    case Collective::kAllGather:
      return {c.count, all};
    case Collective::kBroadcast:
      return {is_root ? c.count : 0, c.count};
    case Collective::kGather:
      return {c.count, is_root ? all : 0};
    case Collective::kScatter:
      return {is_root ? all : 0, c.count};
    case Collective::kAllToAll:
      return {all, all};
    case Collective::kBarrier:
      return {0, 0};
    default:
      return {c.count, c.count};
  }
}

std::uint64_t expected(const Call& c, Rank self, Rank n, std::size_t j) {
  const std::size_t mine = static_cast<std::size_t>(self) * c.count + j;
  switch (c.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return combined(c, n, j);
    case Collective::kReduceScatter:
      return combined(c, n, mine);
    case Collective::kAllGather:
    case Collective::kGather:
      return input(c, static_cast<Rank>(j / c.count), j % c.count);
    case Collective::kBroadcast:
      return input(c, c.root, j);
    case Collective::kScatter:
      return input(c, c.root, mine);
    case Collective::kAllToAll:
      return input(c, static_cast<Rank>(j / c.count), static_cast<std::size_t>(self) * c.count + j % c.count);
    default:
      return input(c, (self + n - 1) % n, j);
  }
}

template <class T>
T value_of(std::uint64_t value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(value);  // products wrap around
  else
    return static_cast<T>(static_cast<float>(value));
}

template <class T>
double number(const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}

template <class T>
Result<std::string> make_with(const Call& c, Communicator& comm) {
  const Rank self = comm.rank(), n = comm.ranks();
  const auto [in_size, out_size] = sizes_of(c, self, n);
  std::vector<T> in(in_size), out(std::max(out_size, c.in_place ? in_size : 0));
  for (std::size_t i = 0; i < in_size; ++i) (c.in_place ? out : in)[i] = value_of<T>(input(c, self, i));
  const Request request{.collective = c.collective,
                        .in = c.in_place ? out.data() : in.data(),
                        .out = out.data(),
                        .count = c.count,
                        .type = c.type,
                        .op = c.op,
                        .root = c.root};
  if (c.started) {
    WEFT_TRY(Work work, comm.start(request));
    WEFT_CHECK(work.wait());
  } else {
    WEFT_CHECK(comm.run(request));
  }
  for (std::size_t j = 0; j < out_size; ++j) {
    const T wanted = value_of<T>(expected(c, self, n, j));
    if (number(out[j]) != number(wanted))
      return fmt::format("rank {} of {}: {}: element {} is {} instead of {}", self, n, c.text(), j, number(out[j]),
                         number(wanted));
  }
  return std::string();
}

}  // namespace

Call Call::draw(Random& random, Rank ranks) {
  Call c{};
  c.collective = kKinds[random.below(std::size(kKinds))];
  c.type = static_cast<DataType>(random.below(kDataTypes));
  do c.op = kOps[random.below(std::size(kOps))];
  while (!applies(c.type, c.op));
  c.root = static_cast<Rank>(random.below(static_cast<std::uint64_t>(ranks)));
  // Every magnitude is as likely as every other, none included; large ones are rarer, for checking them takes long.
  std::uint64_t magnitude = 1;
  for (std::uint64_t bits = random.below(random.below(16) == 0 ? 17 : 11); bits > 0; --bits) magnitude *= 2;
  c.count = random.below(200) == 0 ? random.below(kMostElements) : random.below(magnitude + 1);
  c.in_place =
      (c.collective == Collective::kAllReduce || c.collective == Collective::kBroadcast) && random.below(2) == 0;
  c.started = random.below(4) == 0;
  c.salt = random.next();
  return c;
}

std::string Call::text() const {
  return fmt::format("{} of {} {} {}, root {}{}{}", schedule::name(collective), count, schedule::name(type),
                     schedule::name(op), root, in_place ? ", in place" : "", started ? ", started" : "");
}

Result<std::string> make(const Call& call, Communicator& comm) {
  return with_type(call.type, [&]<class T>(T) { return make_with<T>(call, comm); });
}

}  // namespace weft::soak
