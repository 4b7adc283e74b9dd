#include "exec/kernels/fold.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "exec/kernels/arithmetic.h"
#include "exec/reference.h"
#include "plan/schedule/element.h"
#include "weft/communicator.h"

namespace weft::exec {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum,       ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg,
                             ReduceOp::kPremulSum, ReduceOp::kAnd,  ReduceOp::kOr,  ReduceOp::kXor};

// Memory with guard bytes around `count` elements that start `skew` elements past an aligned address.
template <class T>
class Guarded {
 public:
  Guarded(std::size_t count, std::size_t skew)
      : count_(count), skew_(skew), memory_(count + skew + 2 * kGuard, guard()) {}

  T* data() { return memory_.data() + kGuard + skew_; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(data()); }
  void expect_guards() {
    for (std::size_t i = 0; i < kGuard + skew_; ++i)
      ASSERT_EQ(std::memcmp(&memory_[i], &kPattern, sizeof(T)), 0) << "before";
    for (std::size_t i = kGuard + skew_ + count_; i < memory_.size(); ++i)
      ASSERT_EQ(std::memcmp(&memory_[i], &kPattern, sizeof(T)), 0) << "after";
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::uint64_t kPattern = 0x5a5a5a5a5a5a5a5a;
  static T guard() {
    T t;
    std::memcpy(&t, &kPattern, sizeof(T));
    return t;
  }
  std::size_t count_, skew_;
  std::vector<T> memory_;
};

template <class T>
bool is_nan(T t) {
  const auto value = static_cast<Computed<T>>(t);
  return value != value;
}

// Equal bits; any NaN equals any other.
template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (is_nan(a) && is_nan(b));
}

template <class T>
Computed<T> combine(ReduceOp op, Computed<T> a, Computed<T> b) {
  switch (op) {
    case ReduceOp::kProd:
      return Multiply::of(a, b);
    case ReduceOp::kMin:
      return Minimum::of(a, b);
    case ReduceOp::kMax:
      return Maximum::of(a, b);
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      return Add::of(a, b);
    default:
      if constexpr (std::is_integral_v<T>)
        return op == ReduceOp::kAnd ? And::of(a, b) : op == ReduceOp::kOr ? Or::of(a, b) : Xor::of(a, b);
      return a;
  }
}

template <class T>
class Fold : public testing::Test {
 protected:
  static constexpr DataType kType = data_type_of<T>();

  // All bits random, so that integers wrap and floats are of all sizes; every second value of a float is an ordinary
  // one, every eighth is special: zeros, infinities, NaN, subnormals and the largest.
  T value() {
    T t;
    const std::uint64_t bits = random_();
    std::memcpy(&t, &bits, sizeof(T));
    if constexpr (!std::is_integral_v<T>) {
      if (random_() % 2 == 0)
        return static_cast<T>(static_cast<Computed<T>>(static_cast<int>(random_() % 4096)) / 512 - 4);
      if (random_() % 4 != 0) return t;
      const Computed<T> inf = std::numeric_limits<Computed<T>>::infinity();
      const Computed<T> special[] = {0,
                                     -Computed<T>{0},
                                     inf,
                                     -inf,
                                     std::numeric_limits<Computed<T>>::quiet_NaN(),
                                     Computed<T>(1e-7),
                                     Computed<T>(-1e-40),
                                     Computed<T>(448),
                                     Computed<T>(57344)};
      return static_cast<T>(special[random_() % std::size(special)]);
    }
    return t;
  }

  std::vector<Scalar> scalars(int count) {
    std::vector<Scalar> all;
    for (int i = 0; i < count; ++i)
      all.push_back({static_cast<double>(random_() % 1000) / 300 - 1, static_cast<std::int64_t>(random_())});
    return all;
  }

  // Folds and compares, bit by bit, with the same arithmetic on one element after the other. `in_place`: the source
  // that is also the first destination, or -1.
  void check(ReduceOp op, std::size_t count, int source_count, int destination_count, int in_place = -1) {
    std::vector<Guarded<T>> sources, destinations;
    for (int s = 0; s < source_count; ++s) {
      sources.emplace_back(count, random_() % 9);
      for (std::size_t i = 0; i < count; ++i) sources.back().data()[i] = value();
    }
    for (int d = 0; d < destination_count; ++d) destinations.emplace_back(count, random_() % 9);
    fold_and_compare(op, sources, destinations, count, in_place);
  }

  void fold_and_compare(ReduceOp op, std::vector<Guarded<T>>& sources, std::vector<Guarded<T>>& destinations,
                        std::size_t count, int in_place, Stores stores = Stores::kCached) {
    SCOPED_TRACE(testing::Message() << schedule::name(op) << " of " << count << " " << schedule::name(kType) << ", "
                                    << sources.size() << " sources, " << destinations.size()
                                    << " destinations, in place " << in_place);
    const bool scaled = op == ReduceOp::kAvg || op == ReduceOp::kPremulSum;
    const std::vector<Scalar> scales = scalars(static_cast<int>(sources.size()));
    const auto source = [&](std::size_t s, std::size_t i) {
      const auto x = static_cast<Computed<T>>(sources[s].data()[i]);
      return scaled ? Multiply::of(x, scalar_for<T>(scales[s])) : x;
    };
    std::vector<T> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      Computed<T> v = source(0, i);
      for (std::size_t s = 1; s < sources.size(); ++s) v = combine<T>(op, v, source(s, i));
      expected[i] = sources.size() == 1 && !scaled ? sources[0].data()[i] : static_cast<T>(v);
    }
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (auto& s : sources) from.push_back(s.bytes());
    for (auto& d : destinations) to.push_back(d.bytes());
    if (in_place >= 0) to[0] = sources[static_cast<std::size_t>(in_place)].bytes();
    fold_for(kType, op, stores)(to.data(), static_cast<int>(to.size()), from.data(), static_cast<int>(from.size()),
                                static_cast<Bytes>(count * sizeof(T)), scaled ? scales.data() : nullptr);
    for (const std::byte* d : to)
      for (std::size_t i = 0; i < count; ++i) {
        T got;
        std::memcpy(&got, d + i * sizeof(T), sizeof(T));
        ASSERT_TRUE(same(got, expected[i]))
            << "element " << i << " is " << static_cast<double>(static_cast<Computed<T>>(got)) << " instead of "
            << static_cast<double>(static_cast<Computed<T>>(expected[i]));
      }
    for (auto& s : sources) s.expect_guards();
    for (auto& d : destinations) d.expect_guards();
  }

  static std::vector<ReduceOp> ops() {
    std::vector<ReduceOp> all;
    for (const ReduceOp op : kOps)
      if (applies(kType, op)) all.push_back(op);
    return all;
  }

  std::mt19937_64 random_{20240607};
};

using Types = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                             std::uint32_t, std::uint64_t, Float16, Bfloat16, float, double, Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(Fold, Types);

TYPED_TEST(Fold, AgreesWithOneElementAfterTheOtherForEverySmallSize) {
  for (const ReduceOp op : this->ops())
    for (std::size_t count = 0; count <= 200; ++count)
      for (const int sources : {1, 2, 3})
        ASSERT_NO_FATAL_FAILURE(this->check(op, count, sources, 1 + static_cast<int>(count % 2)));
}

TYPED_TEST(Fold, AgreesForEveryNumberOfSourcesAndDestinations) {
  for (const ReduceOp op : this->ops())
    for (const std::size_t count : {1, 7, 16, 17, 255, 517})
      for (int sources = 1; sources <= 9; ++sources)
        for (int destinations = 1; destinations <= 3; ++destinations)
          ASSERT_NO_FATAL_FAILURE(this->check(op, count, sources, destinations));
}

TYPED_TEST(Fold, WorksInPlaceWithAnyOfItsSources) {
  for (const ReduceOp op : this->ops())
    for (const std::size_t count : {0, 1, 8, 63, 300, 1000})
      for (int sources = 1; sources <= 5; ++sources)
        for (int in_place = 0; in_place < sources; ++in_place)
          ASSERT_NO_FATAL_FAILURE(this->check(op, count, sources, 1 + sources % 2, in_place));
}

// 160 KiB and some is beyond where stores bypass the cache, if the destination is aligned. The vector of elements is
// not aligned by itself, so that many skews are tried: some are.
TYPED_TEST(Fold, AgreesForLargeMessagesWhateverTheirAlignment) {
  const std::size_t count = ((std::size_t{160} << 10) + 72) / sizeof(TypeParam);
  std::vector<Guarded<TypeParam>> sources;
  for (int s = 0; s < 5; ++s) {
    sources.emplace_back(count, static_cast<std::size_t>(s));
    for (std::size_t i = 0; i < count; ++i) sources.back().data()[i] = this->value();
  }
  const std::size_t step = std::max<std::size_t>(1, 8 / sizeof(TypeParam));
  for (const ReduceOp op : this->ops())
    for (const std::size_t used : {1, 2, 5})
      for (std::size_t skew = 0; skew < 64 / sizeof(TypeParam); skew += step) {
        std::vector<Guarded<TypeParam>> some(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(used));
        std::vector<Guarded<TypeParam>> destinations(1, {count, skew});
        ASSERT_NO_FATAL_FAILURE(this->fold_and_compare(op, some, destinations, count, -1, Stores::kStreamed));
        if (skew != 8 * step) continue;
        destinations.assign(2, {count, skew});
        ASSERT_NO_FATAL_FAILURE(this->fold_and_compare(op, some, destinations, count, -1, Stores::kStreamed));
        ASSERT_NO_FATAL_FAILURE(this->fold_and_compare(op, some, destinations, count, 0, Stores::kStreamed));
      }
}

// The derived bound holds for a single fold, which rounds narrow floats once; it is tight enough to notice a second
// rounding somewhere, see the tests of reference.
TYPED_TEST(Fold, StaysWithinTheBoundOfTheReference) {
  const DataType type = data_type_of<TypeParam>();
  for (const ReduceOp op : this->ops())
    for (const std::size_t n : {1, 2, 3, 5, 8, 17}) {
      constexpr std::size_t kCount = 300;
      std::vector<std::vector<TypeParam>> in(n, std::vector<TypeParam>(kCount));
      std::vector<TypeParam> out(kCount);
      for (auto& v : in)
        for (auto& x : v) x = this->value();
      std::vector<const std::byte*> from;
      for (auto& v : in) from.push_back(reinterpret_cast<const std::byte*>(v.data()));
      std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
      std::vector<Scalar> scales(n, Scalar{1.0 / static_cast<double>(n), 1});
      if (op == ReduceOp::kPremulSum) scales = this->scalars(static_cast<int>(n));
      const bool scaled = op == ReduceOp::kPremulSum || (op == ReduceOp::kAvg && is_float(type));
      fold_for(type, op)(to, 1, from.data(), static_cast<int>(n), kCount * sizeof(TypeParam),
                         scaled ? scales.data() : nullptr);
      for (std::size_t i = 0; i < kCount; ++i) {
        std::vector<TypeParam> x;
        for (auto& v : in) x.push_back(v[i]);
        // An average of integers is their sum until it is divided.
        const ReduceOp meant = op == ReduceOp::kAvg && !scaled ? ReduceOp::kSum : op;
        const Expected e = reference(
            type, meant, std::as_bytes(std::span(x)),
            op == ReduceOp::kPremulSum ? std::span<const Scalar>(scales) : std::span<const Scalar>(), Rounded::kOnce);
        const auto got = static_cast<double>(static_cast<Computed<TypeParam>>(out[i]));
        ASSERT_TRUE(acceptable(type, &out[i], e))
            << schedule::name(op) << " of " << n << " " << schedule::name(type) << ": element " << i << " is " << got
            << " instead of " << e.value << " in " << e.low << " … " << e.high << ", infinities " << e.plus_infinity
            << e.minus_infinity << ", NaN " << e.nan;
      }
    }
}

TYPED_TEST(Fold, GivesTheSameBitsWhereverAnElementStands) {
  using T = TypeParam;
  constexpr std::size_t kCount = 150;
  std::vector<T> a(kCount), b(kCount), c(kCount);
  for (auto* v : {&a, &b, &c})
    for (T& x : *v) x = this->value();
  for (const ReduceOp op : this->ops()) {
    std::vector<T> whole(kCount);
    const auto run = [&](std::size_t begin, std::size_t count, T* out) {
      const std::byte* from[] = {reinterpret_cast<std::byte*>(&a[begin]), reinterpret_cast<std::byte*>(&b[begin]),
                                 reinterpret_cast<std::byte*>(&c[begin])};
      std::byte* to[] = {reinterpret_cast<std::byte*>(out)};
      const Scalar scales[] = {{0.3, 3}, {-0.7, 5}, {1.1, -1}};
      const bool scaled = op == ReduceOp::kPremulSum;
      fold_for(data_type_of<T>(), op)(to, 1, from, 3, static_cast<Bytes>(count * sizeof(T)), scaled ? scales : nullptr);
    };
    run(0, kCount, whole.data());
    for (std::size_t begin = 0; begin < kCount; ++begin)
      for (const std::size_t count : {std::size_t{1}, std::size_t{5}, kCount - begin}) {
        if (begin + count > kCount) continue;
        std::vector<T> part(count);
        run(begin, count, part.data());
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_TRUE(same(part[i], whole[begin + i])) << schedule::name(op) << ", " << begin << " + " << i;
      }
  }
}

// Every instruction set that this machine has gives the same bits, those without conversions of half precision and
// without vectors included.
TYPED_TEST(Fold, AgreesOnEveryInstructionSet) {
  const auto choose = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  };
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    choose(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const ReduceOp op : this->ops())
      for (const std::size_t count : {1, 5, 31, 64, 200, 1000})
        for (const int sources : {1, 2, 3, 6}) this->check(op, count, sources, 1);
    choose(0);
  }
}

TEST(FoldIntegers, WrapAround) {
  std::vector<std::int32_t> a(100, std::numeric_limits<std::int32_t>::max()), b(100, 1), out(100);
  const std::byte* from[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data())};
  std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
  for (const std::size_t count : {std::size_t{3}, out.size()}) {
    fold_for(DataType::kInt32, ReduceOp::kSum)(to, 1, from, 2, static_cast<Bytes>(count * 4), nullptr);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(out[i], std::numeric_limits<std::int32_t>::min());
  }
}

TEST(FoldFloats, BitsOfFloatsAreNotCombined) {
  for (const ReduceOp op : {ReduceOp::kAnd, ReduceOp::kOr, ReduceOp::kXor}) {
    EXPECT_EQ(fold_for(DataType::kFloat32, op), nullptr);
    EXPECT_NE(fold_for(DataType::kInt8, op), nullptr);
  }
}

// The rules of IEEE 754, in a vector (100 elements) and alone.
TEST(FoldFloats, InfinitiesNaNAndZerosAreThoseOfIeee) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    ReduceOp op;
    float a, b, expected;
  };
  const Case cases[] = {
      {ReduceOp::kSum, inf, -inf, nan},    {ReduceOp::kSum, inf, 1, inf},        {ReduceOp::kSum, -0.0f, -0.0f, -0.0f},
      {ReduceOp::kSum, -0.0f, 0.0f, 0.0f}, {ReduceOp::kProd, inf, 0, nan},       {ReduceOp::kProd, -inf, 2, -inf},
      {ReduceOp::kMin, nan, 1, nan},       {ReduceOp::kMin, 1, nan, nan},        {ReduceOp::kMax, nan, 1, nan},
      {ReduceOp::kMax, 1, nan, nan},       {ReduceOp::kMin, 0.0f, -0.0f, -0.0f}, {ReduceOp::kMin, -0.0f, 0.0f, -0.0f},
      {ReduceOp::kMax, 0.0f, -0.0f, 0.0f}, {ReduceOp::kMax, -0.0f, 0.0f, 0.0f},  {ReduceOp::kMin, -inf, inf, -inf},
      {ReduceOp::kMax, -inf, inf, inf},    {ReduceOp::kMax, nan, -nan, nan},     {ReduceOp::kMin, inf, nan, nan}};
  for (const Case& c : cases)
    for (const std::size_t count : {1, 100}) {
      SCOPED_TRACE(testing::Message() << schedule::name(c.op) << " of " << c.a << " and " << c.b);
      const auto run = [&]<class T>(T) {
        if (std::is_same_v<T, Float8E4M3> && (std::isinf(c.a) || std::isinf(c.b))) return;  // it has none
        const std::vector<T> a(count, static_cast<T>(c.a)), b(count, static_cast<T>(c.b));
        std::vector<T> out(count);
        const std::byte* from[] = {reinterpret_cast<const std::byte*>(a.data()),
                                   reinterpret_cast<const std::byte*>(b.data())};
        std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
        fold_for(data_type_of<T>(), c.op)(to, 1, from, 2, static_cast<Bytes>(count * sizeof(T)), nullptr);
        for (const T& x : out) ASSERT_TRUE(same(x, static_cast<T>(c.expected)));
      };
      run(float{}), run(double{}), run(Float16{}), run(Bfloat16{}), run(Float8E4M3{}), run(Float8E5M2{});
    }
}

TEST(FoldFloats, TooLargeIsInfinityOrWithoutOneTheLargest) {
  const auto twice = []<class T>(T largest) {
    const std::vector<T> a(50, largest);
    std::vector<T> out(50);
    const std::byte* from[] = {reinterpret_cast<const std::byte*>(a.data()),
                               reinterpret_cast<const std::byte*>(a.data())};
    std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
    fold_for(data_type_of<T>(), ReduceOp::kSum)(to, 1, from, 2, static_cast<Bytes>(50 * sizeof(T)), nullptr);
    return static_cast<float>(out[7]);
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(twice(Float16(65504.0f)), inf);
  EXPECT_EQ(twice(Bfloat16(-3e38f)), -inf);
  EXPECT_EQ(twice(Float8E5M2(57344.0f)), inf);
  EXPECT_EQ(twice(Float8E4M3(448.0f)), 448.0f);
  EXPECT_EQ(twice(Float8E4M3(-448.0f)), -448.0f);
}

// Every pair of 8-bit floats, against a search for the nearest value in exact arithmetic.
template <class T>
class EveryPair : public testing::Test {
 protected:
  // The nearest of all values of the type; of two equally near ones that with an even code.
  static T nearest(double exact) {
    T best{};
    double distance = std::numeric_limits<double>::infinity();
    for (int code = 0; code < 128; ++code) {
      const auto t = T::from_bits(static_cast<std::uint8_t>(code));
      double v = static_cast<float>(t);
      if (v != v) continue;
      // As if the exponents went on; rounding there means overflow.
      if (std::isinf(v)) v = 65536;
      const double d = std::fabs(std::fabs(exact) - v);
      if (d < distance || (d == distance && code % 2 == 0)) best = t, distance = d;
    }
    return T::from_bits(static_cast<std::uint8_t>(best.bits | (std::signbit(exact) ? 0x80 : 0)));
  }
};
using Bytes8 = testing::Types<Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(EveryPair, Bytes8);

TYPED_TEST(EveryPair, IsSummedAndMultipliedWithOneRounding) {
  using T = TypeParam;
  std::vector<T> a, b, out(65536);
  for (int i = 0; i < 65536; ++i) {
    a.push_back(T::from_bits(static_cast<std::uint8_t>(i)));
    b.push_back(T::from_bits(static_cast<std::uint8_t>(i >> 8)));
  }
  const std::byte* from[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data())};
  std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
    fold_for(data_type_of<T>(), op)(to, 1, from, 2, 65536, nullptr);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
      const double exact = op == ReduceOp::kSum    ? x + y
                           : op == ReduceOp::kProd ? x * y
                           : op == ReduceOp::kMin  ? Minimum::of(x, y)
                                                   : Maximum::of(x, y);
      if (exact != exact)
        ASSERT_TRUE(is_nan(out[i])) << x << " " << y;
      else
        ASSERT_EQ(out[i].bits, TestFixture::nearest(exact).bits) << schedule::name(op) << " of " << x << " and " << y;
    }
  }
}

}  // namespace
}  // namespace weft::exec
