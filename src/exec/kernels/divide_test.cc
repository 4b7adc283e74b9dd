#include "exec/kernels/divide.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <limits>
#include <random>
#include <vector>

#include "weft/communicator.h"

namespace weft::exec {
namespace {

template <class T>
class Divide : public testing::Test {};
using Integers = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                                std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(Divide, Integers);

// C++ divides towards zero, too: every kind of divisor; all 8-bit values; of the others the extremes and random ones.
template <class T>
void expect_quotients() {
  std::mt19937_64 random(7);
  for (const std::int64_t n :
       {1, 2, 3, 5, 7, 8, 12, 127, 128, 129, 255, 256, 257, 511, 1000, 16384, 65535, 65536, 99991})
    for (const std::size_t count : {0, 1, 3, 63, 1003}) {
      std::vector<T> x(count + 1);
      for (std::size_t i = 0; i < count; ++i) x[i] = sizeof(T) == 1 ? static_cast<T>(i) : static_cast<T>(random());
      if (count > 3)
        x[0] = std::numeric_limits<T>::min(), x[1] = std::numeric_limits<T>::max(), x[2] = static_cast<T>(-1);
      const std::vector<T> before = x;
      divide(data_type_of<T>(), reinterpret_cast<std::byte*>(x.data()), static_cast<Bytes>(count * sizeof(T)), n);
      for (std::size_t i = 0; i < count; ++i) {
        const T expected = std::is_signed_v<T>
                               ? static_cast<T>(static_cast<std::int64_t>(before[i]) / n)
                               : static_cast<T>(static_cast<std::uint64_t>(before[i]) / static_cast<std::uint64_t>(n));
        ASSERT_EQ(x[i], expected) << +before[i] << " / " << n;
      }
      ASSERT_EQ(x[count], before[count]);
    }
}

TYPED_TEST(Divide, AgreesWithTheLanguageOnEveryInstructionSet) {
  const auto choose = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  };
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    choose(target);
    SCOPED_TRACE(hwy::TargetName(target));
    expect_quotients<TypeParam>();
    choose(0);
  }
  expect_quotients<TypeParam>();  // whatever it would choose
}

}  // namespace
}  // namespace weft::exec
