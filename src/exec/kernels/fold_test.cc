#include "exec/kernels/fold.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "weft/communicator.h"

namespace weft::exec {
namespace {

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
  static constexpr std::size_t kGuard = 16;
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
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

template <class T>
class Fold : public testing::Test {
 protected:
  // Values whose sums depend on the order (floats) or wrap (integers).
  T value() {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(random_());
    else
      return std::ldexp(static_cast<T>(static_cast<std::int64_t>(random_())), static_cast<int>(random_() % 40) - 60);
  }

  // Folds and compares with a scalar loop, bit by bit. `in_place`: the source that is also the first destination, or
  // -1.
  void check(std::size_t count, int source_count, int destination_count, int in_place = -1) {
    SCOPED_TRACE(testing::Message() << count << " elements, " << source_count << " sources, " << destination_count
                                    << " destinations, in place " << in_place);
    std::vector<Guarded<T>> sources, destinations;
    for (int s = 0; s < source_count; ++s) {
      sources.emplace_back(count, random_() % 9);
      for (std::size_t i = 0; i < count; ++i) sources.back().data()[i] = value();
    }
    for (int d = 0; d < destination_count; ++d) destinations.emplace_back(count, random_() % 9);
    fold_and_compare(sources, destinations, count, in_place);
  }

  void fold_and_compare(std::vector<Guarded<T>>& sources, std::vector<Guarded<T>>& destinations, std::size_t count,
                        int in_place) {
    std::vector<T> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] = sources[0].data()[i];
      for (std::size_t s = 1; s < sources.size(); ++s) expected[i] = add(expected[i], sources[s].data()[i]);
    }
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (auto& s : sources) from.push_back(s.bytes());
    for (auto& d : destinations) to.push_back(d.bytes());
    if (in_place >= 0) to[0] = sources[static_cast<std::size_t>(in_place)].bytes();
    fold_for(data_type_of<T>(), ReduceOp::kSum)(to.data(), static_cast<int>(to.size()), from.data(),
                                                static_cast<int>(from.size()), static_cast<Bytes>(count * sizeof(T)),
                                                nullptr);
    for (const std::byte* d : to) ASSERT_TRUE(count == 0 || std::memcmp(d, expected.data(), count * sizeof(T)) == 0);
    for (auto& s : sources) s.expect_guards();
    for (auto& d : destinations) d.expect_guards();
  }

  std::mt19937_64 random_{20240607};
};

using Types = testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(Fold, Types);

TYPED_TEST(Fold, AgreesWithAScalarLoopForEverySmallSize) {
  for (std::size_t count = 0; count <= 300; ++count)
    for (const int sources : {1, 2, 3})
      for (const int destinations : {1, 2}) ASSERT_NO_FATAL_FAILURE(this->check(count, sources, destinations));
}

TYPED_TEST(Fold, AgreesForEveryNumberOfSourcesAndDestinations) {
  for (const std::size_t count : {1, 7, 16, 17, 255, 1031})
    for (int sources = 1; sources <= 9; ++sources)
      for (int destinations = 1; destinations <= 4; ++destinations)
        ASSERT_NO_FATAL_FAILURE(this->check(count, sources, destinations));
}

TYPED_TEST(Fold, WorksInPlaceWithAnyOfItsSources) {
  for (const std::size_t count : {0, 1, 8, 63, 300, 5000})
    for (int sources = 1; sources <= 5; ++sources)
      for (int destinations = 1; destinations <= 2; ++destinations)
        for (int in_place = 0; in_place < sources; ++in_place)
          ASSERT_NO_FATAL_FAILURE(this->check(count, sources, destinations, in_place));
}

// 1 MiB and some is beyond half a megabyte, where stores bypass the cache if the destination is aligned. The vector of
// elements is not aligned by itself, so all skews are tried: some are.
TYPED_TEST(Fold, AgreesForLargeMessagesWhateverTheirAlignment) {
  const std::size_t count = ((std::size_t{1} << 20) + 72) / sizeof(TypeParam);
  std::vector<Guarded<TypeParam>> sources;
  for (int s = 0; s < 5; ++s) {
    sources.emplace_back(count, static_cast<std::size_t>(s));
    for (std::size_t i = 0; i < count; ++i) sources.back().data()[i] = this->value();
  }
  for (const std::size_t used : {1, 2, 5})
    for (std::size_t skew = 0; skew < 16; ++skew) {
      std::vector<Guarded<TypeParam>> some(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(used));
      std::vector<Guarded<TypeParam>> destinations(1, {count, skew});
      ASSERT_NO_FATAL_FAILURE(this->fold_and_compare(some, destinations, count, -1));
      if (skew % 8 != 0) continue;
      destinations.assign(2, {count, skew});
      ASSERT_NO_FATAL_FAILURE(this->fold_and_compare(some, destinations, count, -1));
      ASSERT_NO_FATAL_FAILURE(this->fold_and_compare(some, destinations, count, 0));
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

}  // namespace
}  // namespace weft::exec
