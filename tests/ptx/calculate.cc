#include <cmath>
#include <limits>

#include "tests/ptx/grid.h"
#include "tests/ptx/values.h"

namespace weft::ptx {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Wraps around; the types that C++ would promote are not of interest here.
template <class T, class F>
T wrapping(T a, T b, F f) {
  if constexpr (kIsInteger<T>) {
    return static_cast<T>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  } else {
    return static_cast<T>(f(a, b));
  }
}

template <class T>
T divided(T a, T b) {
  if constexpr (kIsInteger<T>) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(-static_cast<Unsigned<T>>(a));
    return static_cast<T>(a / b);
  } else {
    return static_cast<T>(a / b);
  }
}

template <class T>
T remainder_of(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}

// Of floats: the other one where one is no number, and +0 is above -0.
template <class T>
T least(T a, T b) {
  if constexpr (!kIsInteger<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(static_cast<double>(a)) ? a : b;
  }
  return a < b ? a : b;
}
template <class T>
T most(T a, T b) {
  if constexpr (!kIsInteger<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(static_cast<double>(a)) ? b : a;
  }
  return a > b ? a : b;
}

template <class T>
T shifted_left(T a, std::uint32_t by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<std::uint64_t>(a) << by);
}
template <class T>
T shifted_right(T a, std::uint32_t by) {
  if (by < 8 * sizeof(T)) return static_cast<T>(a >> by);
  return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
}

template <class T>
bool holds(Compare compare, T a, T b) {
  const bool unordered = a != a || b != b;
  switch (compare) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return a != b && !unordered;
    case Compare::kLt:
      return a < b;
    case Compare::kLe:
      return a <= b;
    case Compare::kGt:
      return a > b;
    case Compare::kGe:
      return a >= b;
    case Compare::kEqu:
      return a == b || unordered;
    case Compare::kNeu:
      return a != b;
    case Compare::kLtu:
      return a < b || unordered;
    case Compare::kLeu:
      return a <= b || unordered;
    case Compare::kGtu:
      return a > b || unordered;
    case Compare::kGeu:
      return a >= b || unordered;
    case Compare::kNum:
      return !unordered;
    case Compare::kNan:
      return unordered;
  }
  return false;
}

std::uint32_t permuted(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t all = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t which = selector >> 4 * i & 15;
    auto byte = static_cast<std::uint32_t>(all >> 8 * (which & 7) & 0xff);
    if ((which & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;  // the sign alone
    result |= byte << 8 * i;
  }
  return result;
}

std::uint64_t looked_up(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::int64_t table) {
  std::uint64_t result = 0;
  for (int i = 0; i < 8; ++i)
    if ((table >> i & 1) != 0) result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
  return result;
}

template <class T>
T field(T a, std::uint64_t at, std::uint64_t bits) {
  constexpr std::uint64_t kBits = 8 * sizeof(T);
  at &= 0xff, bits &= 0xff;
  if (bits == 0) return 0;
  const auto value = static_cast<std::uint64_t>(static_cast<Unsigned<T>>(a));
  const bool negative = std::is_signed_v<T> && (value >> std::min(at + bits - 1, kBits - 1) & 1) != 0;
  const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  std::uint64_t result = at >= kBits ? 0 : value >> at & mask;
  const std::uint64_t there = at >= kBits ? 0 : std::min(bits, kBits - at);
  if (negative) result |= there >= 64 ? 0 : ~std::uint64_t{0} << there;
  return static_cast<T>(result);
}

template <class T>
T inserted(T a, T b, std::uint64_t at, std::uint64_t bits) {
  constexpr std::uint64_t kBits = 8 * sizeof(T);
  at &= 0xff, bits &= 0xff;
  if (bits == 0 || at >= kBits) return b;
  bits = std::min(bits, kBits - at);
  const T mask = static_cast<T>((bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1) << at);
  return static_cast<T>((b & ~mask) | (static_cast<T>(a << at) & mask));
}

}  // namespace

void Warp::calculate(const Instruction& in, Mask lanes) {
  std::uint64_t rooms[4][kLanes];
  const Source a = source(in.a, rooms[0]), b = source(in.b, rooms[1]), c = source(in.c, rooms[2]),
               d = source(in.d, rooms[3]);
  std::uint64_t* const to = registers_.of(in.to.at);
  const auto each = [&](auto&& value) { for_lanes(lanes, [&](int l) { to[l] = value(l); }); };

  const auto plain = [&]<class T>(T) -> bool {
    const auto one = [&](auto&& f) {
      return each([&](int l) { return put<T>(static_cast<T>(f(get<T>(a[l])))); }), true;
    };
    const auto two = [&](auto&& f) {
      return each([&](int l) { return put<T>(static_cast<T>(f(get<T>(a[l]), get<T>(b[l])))); }), true;
    };
    switch (in.op) {
      case Op::kAdd:
        return two([](T x, T y) { return wrapping(x, y, [](auto p, auto q) { return p + q; }); });
      case Op::kSub:
        return two([](T x, T y) { return wrapping(x, y, [](auto p, auto q) { return p - q; }); });
      case Op::kMul:
        return two([](T x, T y) { return wrapping(x, y, [](auto p, auto q) { return p * q; }); });
      case Op::kDiv:
        return two([](T x, T y) { return divided(x, y); });
      case Op::kMin:
        return two([](T x, T y) { return least(x, y); });
      case Op::kMax:
        return two([](T x, T y) { return most(x, y); });
      case Op::kSetp: {
        for_lanes(lanes, [&](int l) {
          const bool is = holds(in.compare, get<T>(a[l]), get<T>(b[l]));
          const bool other = in.c ? predicate(in.c, Mask{1} << l) != 0 : false;
          const auto with = [&](bool x) {
            return in.way == Way::kAnd   ? x && other
                   : in.way == Way::kOr  ? x || other
                   : in.way == Way::kXor ? x != other
                                         : x;
          };
          if (in.also_to) registers_.of(in.also_to.at)[l] = with(!is);
          to[l] = with(is);
        });
        return true;
      }
      case Op::kAbs:
        return one([](T x) { return std::signbit(static_cast<double>(x)) ? static_cast<T>(-x) : x; });
      case Op::kNeg:
        if constexpr (kIsInteger<T>) return one([](T x) { return static_cast<T>(-static_cast<std::uint64_t>(x)); });
        return one([](T x) { return static_cast<T>(-x); });
      default:
        break;
    }
    if constexpr (kIsInteger<T>) {
      using U = Unsigned<T>;
      using Wide = std::conditional_t<std::is_signed_v<T>, Int128, Uint128>;
      const auto product = [&](int l) { return static_cast<Wide>(get<T>(a[l])) * static_cast<Wide>(get<T>(b[l])); };
      switch (in.op) {
        case Op::kMad:
          return each([&](int l) { return put(static_cast<T>(static_cast<std::uint64_t>(product(l)) + c[l])); }), true;
        case Op::kMulHi:
          return each([&](int l) { return put(static_cast<T>(product(l) >> 8 * sizeof(T))); }), true;
        case Op::kMulWide:
          return each([&](int l) { return static_cast<std::uint64_t>(product(l)); }), true;
        case Op::kMadWide:
          return each([&](int l) { return static_cast<std::uint64_t>(product(l)) + c[l]; }), true;
        case Op::kRem:
          return two([](T x, T y) { return remainder_of(x, y); });
        case Op::kShl:
          return each([&](int l) { return put(shifted_left(get<T>(a[l]), static_cast<std::uint32_t>(b[l]))); }), true;
        case Op::kShr:
          return each([&](int l) { return put(shifted_right(get<T>(a[l]), static_cast<std::uint32_t>(b[l]))); }), true;
        case Op::kBfe:
          return each([&](int l) { return put(field(get<T>(a[l]), b[l], c[l])); }), true;
        case Op::kBfi:
          return each([&](int l) { return put(inserted(get<U>(a[l]), get<U>(b[l]), c[l], d[l])); }), true;
        case Op::kClz:
          return each([&](int l) { return static_cast<std::uint64_t>(std::countl_zero(get<U>(a[l]))); }), true;
        case Op::kPopc:
          return each([&](int l) { return static_cast<std::uint64_t>(std::popcount(get<U>(a[l]))); }), true;
        case Op::kBrev:
          return one([](T x) {
            U result = 0;
            for (std::size_t i = 0; i < 8 * sizeof(T); ++i)
              result = static_cast<U>(result << 1 | (static_cast<U>(x) >> i & 1));
            return static_cast<T>(result);
          });
        default:
          return false;
      }
    } else {
      switch (in.op) {
        case Op::kFma:
          if constexpr (sizeof(T) == 2)  // exact in double, then rounded once: the product has 22 bits
            return each([&](int l) {
                     return put(static_cast<T>(static_cast<double>(get<T>(a[l])) * static_cast<double>(get<T>(b[l])) +
                                               static_cast<double>(get<T>(c[l]))));
                   }),
                   true;
          else
            return each([&](int l) { return put(std::fma(get<T>(a[l]), get<T>(b[l]), get<T>(c[l]))); }), true;
        case Op::kRcp:
          return one([](T x) { return T{1} / x; });
        case Op::kSqrt:
          return one([](T x) { return static_cast<T>(std::sqrt(static_cast<double>(x))); });
        default:
          return false;
      }
    }
  };

  switch (in.op) {  // what is the same for all types of a size
    case Op::kMove:
      return each([&](int l) { return a[l]; });
    case Op::kAnd:
      return each([&](int l) { return a[l] & b[l]; });
    case Op::kOr:
      return each([&](int l) { return a[l] | b[l]; });
    case Op::kXor:
      return each([&](int l) { return a[l] ^ b[l]; });
    case Op::kNot:
      return each([&](int l) { return ~a[l]; });
    case Op::kSelect:
      return each([&](int l) { return predicate(in.c, Mask{1} << l) != 0 ? a[l] : b[l]; });
    case Op::kPrmt:
      return each([&](int l) {
        return permuted(get<std::uint32_t>(a[l]), get<std::uint32_t>(b[l]), get<std::uint32_t>(c[l]));
      });
    case Op::kLop3:
      return each([&](int l) { return looked_up(a[l], b[l], c[l], in.offset); });
    case Op::kShf:
      return each([&](int l) {
        const std::uint64_t both = std::uint64_t{get<std::uint32_t>(b[l])} << 32 | get<std::uint32_t>(a[l]);
        const std::uint64_t by = in.wraps ? c[l] & 31 : std::min(c[l] & 0xffffffff, std::uint64_t{32});
        return std::uint64_t{in.way == Way::kLeft ? static_cast<std::uint32_t>(both << by >> 32)
                                                  : static_cast<std::uint32_t>(both >> by)};
      });
    default:
      break;
  }
  bool known = false;
  with_type(in.type, [&]<class T>(T value) { known = plain(value); });
  if (!known) fail(in, __builtin_ctz(lanes), "the interpreter does not execute");
}

}  // namespace weft::ptx
