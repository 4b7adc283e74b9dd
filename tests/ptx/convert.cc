#include <cmath>
#include <limits>

#include "tests/ptx/grid.h"
#include "tests/ptx/values.h"

namespace weft::ptx {

float widen(const Eighth& format, std::uint8_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = bits >> format.mantissa_bits & ((1 << format.exponent_bits) - 1);
  const int last = (1 << format.exponent_bits) - 1, ones = (1 << format.mantissa_bits) - 1;
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  if (exponent == last && format.infinite)
    return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  if (exponent == last && mantissa == ones) return std::numeric_limits<float>::quiet_NaN();
  const int whole = exponent == 0 ? mantissa : mantissa + ones + 1;
  return sign * std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

std::uint8_t narrow(const Eighth& format, double value) {
  if (value != value) return 0x7f;
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const auto size = std::abs(value);
  std::uint8_t below = 0;  // the largest that is not above; the values grow with their bits
  while (below < 0x7e && widen(format, static_cast<std::uint8_t>(below + 1)) <= std::min(size, double{format.most}))
    ++below;
  const auto above = static_cast<std::uint8_t>(below + 1);
  const double down = size - widen(format, below), up = widen(format, above) - size;
  const bool is_last = widen(format, below) == format.most;
  if (!is_last && (up < down || (up == down && below % 2 != 0))) return sign | above;
  return sign | below;
}

namespace {

// Towards the range's end where the value is beyond it; what is no number is 0.
template <class To, class From>
To to_integer(From value) {
  const auto wide = static_cast<long double>(value);
  if (wide != wide) return 0;
  if (wide <= static_cast<long double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (wide >= static_cast<long double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(wide);
}

template <class F>
F rounded(F value, Rounding rounding) {
  const auto wide = static_cast<double>(value);
  switch (rounding) {
    case Rounding::kNone:
      return value;
    case Rounding::kNearest:
      return static_cast<F>(std::nearbyint(wide));
    case Rounding::kZero:
      return static_cast<F>(std::trunc(wide));
    case Rounding::kDown:
      return static_cast<F>(std::floor(wide));
    case Rounding::kUp:
      return static_cast<F>(std::ceil(wide));
  }
  return value;
}

template <class To, class From>
To converted(const Instruction& in, From value) {
  if constexpr (kIsInteger<From> && kIsInteger<To>) {
    if (!in.saturates) return static_cast<To>(value);
    return to_integer<To>(value);
  } else if constexpr (kIsInteger<To>) {
    return to_integer<To>(rounded(value, in.rounding));
  } else if constexpr (kIsInteger<From>) {
    return static_cast<To>(value);
  } else {
    const To after = static_cast<To>(rounded(value, in.rounding));
    if (!in.saturates) return after;
    return after != after || after < To{0} ? To{0} : after > To{1} ? To{1} : after;
  }
}

}  // namespace

void Warp::convert(const Instruction& in, Mask lanes) {
  std::uint64_t room[kLanes];
  const Source a = source(in.a, room);
  std::uint64_t* const to = registers_.of(in.to.at);
  with_type(in.type, [&]<class To>(To) {
    with_type(in.from, [&]<class From>(From) {
      for_lanes(lanes, [&](int l) { to[l] = put(converted<To>(in, get<From>(a[l]))); });
    });
  });
}

void Warp::widen_pair(const Instruction& in, Mask lanes) {
  const Eighth& format = in.e4m3 ? kE4M3 : kE5M2;
  std::uint64_t room[kLanes];
  const Source a = source(in.a, room);
  std::uint64_t* const to = registers_.of(in.to.at);
  for_lanes(lanes, [&](int l) {
    const auto half = [&](int which) {
      return put(static_cast<Half>(widen(format, static_cast<std::uint8_t>(a[l] >> 8 * which))));
    };
    to[l] = half(0) | half(1) << 16;
  });
}

// Of two floats, the first of which is the upper one, or of two halves in one register.
void Warp::narrow_pair(const Instruction& in, Mask lanes) {
  const Eighth& format = in.e4m3 ? kE4M3 : kE5M2;
  std::uint64_t rooms[2][kLanes];
  const Source a = source(in.a, rooms[0]), b = source(in.b, rooms[1]);
  std::uint64_t* const to = registers_.of(in.to.at);
  for_lanes(lanes, [&](int l) {
    const double upper = in.b ? static_cast<double>(get<float>(a[l])) : static_cast<double>(get<Half>(a[l] >> 16));
    const double lower = in.b ? static_cast<double>(get<float>(b[l])) : static_cast<double>(get<Half>(a[l]));
    to[l] = std::uint64_t{narrow(format, upper)} << 8 | narrow(format, lower);
  });
}

void Warp::pack(const Instruction& in, Mask lanes) {
  const int bits = 8 * size_of(in.type) / in.width;
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  std::uint64_t room[kLanes];
  if (in.op == Op::kUnpack) {
    const Source a = source(in.a, room);
    std::uint64_t values[kLanes];
    for_lanes(lanes, [&](int l) { values[l] = a[l]; });  // a result may be the source
    for (int i = 0; i < in.width; ++i) {
      if (!in.list[static_cast<std::size_t>(i)]) continue;
      std::uint64_t* const to = registers_.of(in.list[static_cast<std::size_t>(i)].at);
      for_lanes(lanes, [&](int l) { to[l] = values[l] >> i * bits & mask; });
    }
    return;
  }
  std::uint64_t values[kLanes] = {};
  for (int i = 0; i < in.width; ++i) {
    const Source part = source(in.list[static_cast<std::size_t>(i)], room);
    for_lanes(lanes, [&](int l) { values[l] |= (part[l] & mask) << i * bits; });
  }
  std::uint64_t* const to = registers_.of(in.to.at);
  for_lanes(lanes, [&](int l) { to[l] = values[l]; });
}

}  // namespace weft::ptx
