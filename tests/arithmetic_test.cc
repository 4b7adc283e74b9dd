// Every type with every operation over communicators of threads: by messages and by loads and stores of peers' memory,
// against the reference with its derived bound.

#include <gtest/gtest.h>

#include <cstring>

#include "exec/kernels/arithmetic.h"
#include "exec/reference.h"
#include "plan/schedule/element.h"
#include "tests/communicators.h"

namespace weft {
namespace {

using tests::on_threads;
using tests::thread_communicators;

constexpr ReduceOp kOps[] = {ReduceOp::kSum,       ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg,
                             ReduceOp::kPremulSum, ReduceOp::kAnd,  ReduceOp::kOr,  ReduceOp::kXor};

// Bits of any kind for integers; for floats ordinary values, some of them so large that sums overflow in narrow types,
// and a few zeros, infinities and NaN. Known to every rank.
template <class T>
T contribution(Rank rank, std::size_t at) {
  // SplitMix64
  auto state = static_cast<std::uint64_t>(at) * 131 + static_cast<std::uint64_t>(rank);
  const auto random = [&state] {
    std::uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  };
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random());
  } else {
    const std::uint64_t kind = random() % 64;
    const float special[] = {0.0f, -0.0f, 1.0f / 0.0f, -1.0f / 0.0f, 0.0f / 0.0f, 448, -57344};
    if (kind < std::size(special)) return static_cast<T>(special[kind]);
    return static_cast<T>(static_cast<float>(static_cast<int>(random() % 8192) - 4096) / 700);
  }
}

Scalar scalar_of(Rank rank) { return Scalar{0.75 - 0.5 * rank, 3 - rank}; }

struct Way {
  const char* algorithm;
  const char* protocol;
};
constexpr Way kWays[] = {{"ring", "Simple"}, {"ring", "LL64"}, {"one_shot", "LL64"}, {"two_shot", "Direct"}};

template <class T>
void run(Communicator& c, Collective collective, ReduceOp op, const Way& way, std::size_t count, bool in_place) {
  constexpr DataType kType = data_type_of<T>();
  const auto n = static_cast<std::size_t>(c.ranks()), self = static_cast<std::size_t>(c.rank());
  const bool scatters = collective == Collective::kReduceScatter;
  std::vector<T> in(scatters ? count * n : count), separate(count);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = contribution<T>(c.rank(), i);
  const std::size_t first = scatters ? self * count : 0;
  T* const out = in_place ? in.data() + first : separate.data();
  Request request{.collective = collective,
                  .in = in.data(),
                  .out = out,
                  .count = count,
                  .type = kType,
                  .op = op,
                  .algorithm = way.algorithm,
                  .protocol = way.protocol};
  std::vector<Scalar> scalars;
  if (op == ReduceOp::kPremulSum) {
    request.scalar = scalar_of(c.rank());
    for (Rank r = 0; r < c.ranks(); ++r) scalars.push_back(scalar_of(r));
  }
  const Status done = c.run(request);
  ASSERT_TRUE(done) << done.error().message;
  std::vector<T> x(n);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < n; ++r) x[r] = contribution<T>(static_cast<Rank>(r), first + i);
    const exec::Expected e = exec::reference(kType, op, std::as_bytes(std::span(x)), scalars);
    ASSERT_TRUE(exec::acceptable(kType, out + i, e))
        << schedule::name(collective) << " " << schedule::name(op) << " of " << schedule::name(kType) << " by "
        << way.algorithm << " " << way.protocol << " on " << n << " ranks" << (in_place ? " in place" : "")
        << ": element " << i << " is " << static_cast<double>(static_cast<exec::Computed<T>>(out[i])) << " instead of "
        << e.value << " in " << e.low << " … " << e.high;
  }
}

template <class T>
void run_all(Communicator& c) {
  for (const ReduceOp op : kOps) {
    if (!applies(data_type_of<T>(), op)) continue;
    for (const Way& way : kWays)
      for (const std::size_t count : {1, 61, 515})
        ASSERT_NO_FATAL_FAILURE(run<T>(c, Collective::kAllReduce, op, way, count, count == 61));
    ASSERT_NO_FATAL_FAILURE(run<T>(c, Collective::kReduceScatter, op, kWays[0], 130, false));
    ASSERT_NO_FATAL_FAILURE(run<T>(c, Collective::kReduceScatter, op, kWays[0], 130, true));
  }
}

template <class... T>
struct Types {
  static void run(Communicator& c) { (run_all<T>(c), ...); }
};
using All = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                  std::uint64_t, Float16, Bfloat16, float, double, Float8E4M3, Float8E5M2>;

class Arithmetic : public testing::TestWithParam<Rank> {};

TEST_P(Arithmetic, EveryTypeAndOperationStaysWithinTheBound) { on_threads(thread_communicators(GetParam()), All::run); }

// Through scratch: contributions are scaled where they are first read, and not again.
TEST_P(Arithmetic, EveryTypeAndOperationStaysWithinTheBoundThroughScratch) {
  on_threads(thread_communicators(GetParam(), tests::patient(GetParam()), tests::forcing_chooser(true)), All::run);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Arithmetic, testing::Range(1, 6),
                         [](const auto& info) { return "On" + std::to_string(info.param); });

TEST(Operations, AnAverageOfEqualValuesIsThatValue) {
  on_threads(thread_communicators(4), [](Communicator& c) {
    for (const char* algorithm : {"ring", "tree", "one_shot", "two_shot"}) {
      const auto check = [&]<class T>(T value) {
        std::vector<T> x(100, value);
        ASSERT_TRUE(c.run({.in = x.data(),
                           .out = x.data(),
                           .count = x.size(),
                           .type = data_type_of<T>(),
                           .op = ReduceOp::kAvg,
                           .algorithm = algorithm}));
        for (const T& got : x) ASSERT_EQ(std::memcmp(&got, &value, sizeof(T)), 0) << algorithm;
      };
      check(std::int32_t{-7}), check(std::uint64_t{7}), check(1.5f), check(Bfloat16(1.5f)), check(Float8E4M3(1.5f));
      check(Float8E5M2(-40960.0f));  // four of them would be infinite, quarters of them are not
    }
  });
}

TEST(Operations, WhatDoesNotApplyIsRefusedOnOneLine) {
  auto c = std::move(thread_communicators(1)[0]);
  float x = 1;
  const auto refused = [&](Request r) {
    r.in = r.out = &x, r.count = 1;
    const Status s = c.run(r);
    EXPECT_FALSE(s);
    return s ? "" : s.error().message;
  };
  EXPECT_EQ(refused({.op = ReduceOp::kXor}), "all_reduce: xor is for integers, not for float");
  EXPECT_EQ(refused({.op = ReduceOp::kPremulSum}), "all_reduce: mulsum needs a scalar");
  EXPECT_EQ(refused({.op = ReduceOp::kMax, .scalar = Scalar::of(2)}),
            "all_reduce: a scalar is for mulsum, not for max");
  EXPECT_TRUE(c.run({.in = &x, .out = &x, .count = 1, .op = ReduceOp::kPremulSum, .scalar = Scalar::of(2.5)}));
  EXPECT_EQ(x, 2.5f);
}

TEST(Operations, TypedCallsTakeAnOperation) {
  on_threads(thread_communicators(3), [](Communicator& c) {
    const std::vector<Float16> in(50, Float16(static_cast<float>(c.rank() + 1)));
    std::vector<Float16> out(50);
    ASSERT_TRUE(c.all_reduce<Float16>(in, out, ReduceOp::kMax));
    EXPECT_EQ(static_cast<float>(out[49]), 3);
    ASSERT_TRUE(c.all_reduce<Float16>(in, out, ReduceOp::kPremulSum, Scalar::of(0.5)));
    EXPECT_EQ(static_cast<float>(out[49]), 3);  // (1 + 2 + 3) / 2
  });
}

// Ranks that combine differently call different things.
TEST(Operations, DifferentOperationsAreAMismatch) {
  std::vector<Status> said(2);
  on_threads(thread_communicators(2), [&](Communicator& c) {
    std::vector<float> x(100, 1);
    said[static_cast<std::size_t>(c.rank())] = c.run({.in = x.data(),
                                                      .out = x.data(),
                                                      .count = 100,
                                                      .op = c.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax,
                                                      .algorithm = "two_shot"});
  });
  EXPECT_TRUE((!said[0] && said[0].error().code == Code::kMismatch) ||
              (!said[1] && said[1].error().code == Code::kMismatch));
}

}  // namespace
}  // namespace weft
