#include "exec/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "weft/low_precision.h"

// The bound. Let u be the unit roundoff of the element type, v that of what it is calculated in (float for narrow
// types, otherwise itself), e half of the type's least positive number. One step of the calculation, a ⊕ b, is rounded
// to v and, if the result travels as an element, to u: its value is (a + b)(1 + d) with 1 + |d| <= g, where g =
// (1+u)(1+v) for narrow types and 1+u for the others. Whatever the order of n - 1 additions, a contribution passes
// through at most all of them, so that (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 4.2)
//     |result - Σ x| <= (g^(n-1) - 1) Σ |x|.
// Rounded once: the additions in v only, then one rounding to u: g^(n-1) becomes (1+v)^(n-1) (1+u).
// Sums of elements are multiples of the least positive number, so that nothing is lost to underflow.
// Scaled contributions are rounded once more (the product), averages twice (1/n and the product): g^(n-1) becomes
// g^n (1+v)^2; such values may underflow, which adds at most e at each of at most 2n roundings.
// Products: the same factor on |Π x|. Underflow of a partial product loses at most e, which what follows may enlarge by
// at most Π max(1, |x|): that times 2n e is added.
// Infinity (e4m3: its largest value) is acceptable exactly when some partial result may exceed the type's largest
// value: when the sum of the positive (negative) contributions, or Π max(1, |x|), enlarged by the bound, does; NaN
// also, when infinities of both signs, or an infinity and zero, may meet. Minima, maxima and everything on integers are
// exact.
namespace weft::exec {
namespace {

using Real = long double;  // 64 bits or more: what its roundings add to the bound is covered by kSlack
constexpr Real kSlack = 1 + 1e-9L;

struct Format {
  Real unit, least, largest;  // unit roundoff, least positive, largest finite value
  Real computed_unit;
  bool infinity = true;
};

Format format_of(DataType type) {
  const auto power = [](int e) { return std::ldexp(Real{1}, e); };
  switch (type) {
    case DataType::kFloat16:
      return {power(-11), power(-24), 65504, power(-24)};
    case DataType::kBfloat16:
      return {power(-8), power(-133), 255 * power(120), power(-24)};
    case DataType::kFloat8E4M3:
      return {power(-4), power(-9), 448, power(-24), false};
    case DataType::kFloat8E5M2:
      return {power(-3), power(-16), 57344, power(-24)};
    case DataType::kFloat32:
      return {power(-24), power(-149), std::numeric_limits<float>::max(), 0};
    default:
      return {power(-53), power(-1074), std::numeric_limits<double>::max(), 0};
  }
}

template <class T>
T load(const void* from) {
  T t;
  std::memcpy(&t, from, sizeof(T));
  return t;
}

double real_at(DataType type, const void* at) {
  switch (type) {
    case DataType::kFloat16:
      return static_cast<float>(load<Float16>(at));
    case DataType::kBfloat16:
      return static_cast<float>(load<Bfloat16>(at));
    case DataType::kFloat8E4M3:
      return static_cast<float>(load<Float8E4M3>(at));
    case DataType::kFloat8E5M2:
      return static_cast<float>(load<Float8E5M2>(at));
    case DataType::kFloat32:
      return load<float>(at);
    default:
      return load<double>(at);
  }
}

bool is_signed(DataType type) { return type <= DataType::kInt64; }

// Sign- or zero-extended to 64 bits.
std::uint64_t integer_at(DataType type, const void* at) {
  std::uint64_t bits = 0;
  const auto size = static_cast<std::size_t>(size_of(type));
  std::memcpy(&bits, at, size);
  const int unused = 64 - 8 * static_cast<int>(size);
  if (!is_signed(type)) return bits;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
}

std::uint64_t combine(DataType type, ReduceOp op, std::uint64_t a, std::uint64_t b) {
  const bool less = is_signed(type) ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return less ? a : b;
    case ReduceOp::kMax:
      return less ? b : a;
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

Expected integer_reference(DataType type, ReduceOp op, std::span<const std::byte> contributions,
                           std::span<const Scalar> scalars) {
  const auto size = static_cast<std::size_t>(size_of(type));
  const std::size_t n = contributions.size() / size;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t x = integer_at(type, &contributions[i * size]);
    if (op == ReduceOp::kPremulSum) x *= static_cast<std::uint64_t>(scalars[i].integer);
    value = i == 0 ? x : combine(type, op, value, x);
  }
  if (op == ReduceOp::kAvg) {
    const std::uint64_t wrapped = integer_at(type, &value);  // little-endian: its lower bytes
    const auto count = static_cast<std::int64_t>(n);
    value = is_signed(type) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(wrapped) / count)
                            : wrapped / static_cast<std::uint64_t>(count);
  }
  return {.integer = true, .bits = integer_at(type, &value)};
}

// An exact minimum or maximum.
Expected extreme(ReduceOp op, std::span<const double> x) {
  double best = x[0];
  for (const double v : x) {
    if (std::isnan(v)) return {.finite = false, .nan = true};
    const bool less = v < best || (v == best && std::signbit(v) && !std::signbit(best));
    const bool more = v > best || (v == best && !std::signbit(v) && std::signbit(best));
    if (op == ReduceOp::kMin ? less : more) best = v;
  }
  return {
      .exact = true, .value = best, .low = best, .high = best, .plus_infinity = best > 0, .minus_infinity = best < 0};
}

// What a result of this exact value and bound may be, if partial results reach `most_up` and `most_down`.
Expected around(const Format& f, Real value, Real bound, Real most_up, Real most_down, bool meets_nan) {
  Expected e{.value = static_cast<double>(value)};
  const Real threshold = f.largest * (1 + f.unit / 2);  // nothing less is rounded up to more than the largest value
  const bool up = most_up >= threshold, down = most_down >= threshold;
  Real low = value - bound, high = value + bound;
  if (!f.infinity) {
    // A partial sum that stops at the largest value L makes the result smaller, but not less than L minus all that is
    // negative: by induction over the additions, in any order.
    if (up) low = std::min(low, f.largest - most_down);
    if (down) high = std::max(high, most_up - f.largest);
    low = std::clamp(low, -f.largest, f.largest), high = std::clamp(high, -f.largest, f.largest);
  } else {
    e.plus_infinity = up, e.minus_infinity = down, e.nan = meets_nan && (up || down);
    e.finite = low < f.largest * (1 + f.unit) && high > -f.largest * (1 + f.unit);
  }
  e.low = static_cast<double>(low), e.high = static_cast<double>(high);
  return e;
}

Expected product(const Format& f, std::span<const double> x, Real excess) {
  Real value = 1, most = 1;
  bool zero = false, infinite = false;
  for (const double v : x) {
    value *= v, most *= std::max<Real>(1, std::fabs(v));
    zero |= v == 0, infinite |= std::isinf(v);
  }
  const auto n = static_cast<Real>(x.size());
  if (std::isnan(value)) return {.finite = false, .nan = true};
  if (infinite) {
    // A finite part may underflow to zero before it meets infinity.
    Real least = 1;
    for (const double v : x)
      if (!std::isinf(v)) least *= std::min<Real>(1, std::fabs(v));
    return {.value = static_cast<double>(value),
            .finite = false,
            .plus_infinity = value > 0,
            .minus_infinity = value < 0,
            .nan = least < f.least};
  }
  const Real bound = excess * std::fabs(value) + (x.size() > 1 ? n * f.least * most * (1 + excess) : 0);
  const bool negative = std::signbit(value);
  const Real reach = most * (1 + excess) * kSlack;
  Expected e = around(f, value, bound * kSlack, reach, reach, true);
  // Infinity has the product's sign.
  if (!zero && f.infinity) (negative ? e.plus_infinity : e.minus_infinity) = false;
  return e;
}

Expected sum(const Format& f, std::span<const Real> x, Real excess, bool underflows) {
  Real value = 0, up = 0, down = 0;
  for (const Real v : x) value += v, (v > 0 ? up : down) += std::fabs(v);
  const Real bound = excess * (up + down) + (underflows ? static_cast<Real>(x.size()) * f.least * (1 + excess) : 0);
  const Real threshold = f.largest * (1 + f.unit / 2);
  if (std::isnan(value)) return {.finite = false, .nan = true};
  if (std::isinf(value)) {
    const bool positive = value > 0;
    if (!f.infinity) {  // from an infinite scalar
      const auto largest = static_cast<double>(positive ? f.largest : -f.largest);
      return {.value = largest, .low = largest, .high = largest, .nan = true};
    }
    return {.value = static_cast<double>(value),
            .finite = false,
            .plus_infinity = positive,
            .minus_infinity = !positive,
            .nan = (positive ? down : up) * (1 + excess) >= threshold};
  }
  const Real reach_up = (up * (1 + excess) + bound) * kSlack, reach_down = (down * (1 + excess) + bound) * kSlack;
  return around(f, value, bound * kSlack, reach_up, reach_down, reach_up >= threshold && reach_down >= threshold);
}

}  // namespace

Expected reference(DataType type, ReduceOp op, std::span<const std::byte> contributions,
                   std::span<const Scalar> scalars, Rounded rounded) {
  WEFT_REQUIRE(applies(type, op));
  const auto size = static_cast<std::size_t>(size_of(type));
  const std::size_t n = contributions.size() / size;
  WEFT_REQUIRE(n > 0 && (op != ReduceOp::kPremulSum || scalars.size() == n), "{} contributions, {} scalars", n,
               scalars.size());
  if (!is_float(type)) return integer_reference(type, op, contributions, scalars);

  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = real_at(type, &contributions[i * size]);
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return extreme(op, x);

  const Format f = format_of(type);
  const bool scaled = op == ReduceOp::kAvg || op == ReduceOp::kPremulSum;
  const Real inner = f.computed_unit > 0 ? f.computed_unit : f.unit;  // of one calculation
  const Real outer = f.computed_unit > 0 ? f.unit : 0;                // of rounding its result to an element
  const auto steps = static_cast<Real>(n - 1 + (scaled ? 1 : 0));
  Real logarithm = (steps + (scaled ? 2 : 0)) * std::log1p(inner);
  if (steps > 0) logarithm += (rounded == Rounded::kOnce ? 1 : steps) * std::log1p(outer);
  const Real excess = std::expm1(logarithm);
  if (op == ReduceOp::kProd) return product(f, x, excess);

  std::vector<Real> y(x.begin(), x.end());
  for (std::size_t i = 0; i < n; ++i) {
    if (op == ReduceOp::kAvg) y[i] /= static_cast<Real>(n);
    if (op == ReduceOp::kPremulSum)
      y[i] *= f.computed_unit > 0 || type == DataType::kFloat32 ? static_cast<float>(scalars[i].real) : scalars[i].real;
  }
  return sum(f, y, excess, scaled);
}

bool acceptable(DataType type, const void* got, const Expected& e) {
  if (e.integer) return integer_at(type, got) == e.bits;
  const double value = real_at(type, got);
  if (e.exact) return value == e.value && std::signbit(value) == std::signbit(e.value);
  if (std::isnan(value)) return e.nan;
  if (std::isinf(value)) return value > 0 ? e.plus_infinity : e.minus_infinity;
  return e.finite && e.low <= value && value <= e.high;
}

}  // namespace weft::exec
