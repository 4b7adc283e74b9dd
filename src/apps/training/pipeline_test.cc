#include "apps/training/pipeline.h"

#include <gtest/gtest.h>

namespace weft::training {
namespace {

// arXiv 2401.10241 (Qi et al., Zero Bubble Pipeline Parallelism, 2023-11), table 6: measured passes of a stage in ms;
// table 5: bubble rate of a schedule run with them.
struct Row {
  Schedule schedule;
  std::int64_t stages, chunks, micro_batches;
  double forward, backward, weight, edge, bubble;
};
constexpr auto k1 = Schedule::k1F1B;
constexpr Row kTable[] = {
    {k1, 8, 1, 24, 18.522, 18.086, 9.337, 0.601, 0.2431},
    {k1, 8, 1, 32, 18.513, 18.086, 9.331, 0.626, 0.1985},
    {k1, 8, 1, 64, 18.546, 18.097, 9.321, 0.762, 0.1240},
    {k1, 16, 1, 48, 11.347, 11.248, 8.132, 0.377, 0.2552},
    {k1, 16, 1, 64, 11.307, 11.254, 8.101, 0.379, 0.2082},
    {k1, 16, 1, 128, 11.325, 11.308, 8.109, 0.378, 0.1251},
    {k1, 8, 3, 24, 18.522, 18.086, 9.337, 0.601, 0.1055},
    {k1, 8, 3, 32, 18.513, 18.086, 9.331, 0.626, 0.0818},
    {k1, 8, 3, 64, 18.546, 18.097, 9.321, 0.762, 0.0443},
    {k1, 16, 3, 48, 11.347, 11.248, 8.132, 0.377, 0.1104},
    {k1, 16, 3, 64, 11.307, 11.254, 8.101, 0.379, 0.0852},
    {k1, 16, 3, 128, 11.325, 11.308, 8.109, 0.378, 0.0445},
    {Schedule::kZeroBubble, 8, 1, 24, 18.522, 18.086, 9.337, 0.601, 0.1585},
    {Schedule::kZeroBubble, 8, 1, 32, 18.513, 18.086, 9.331, 0.626, 0.1242},
    {Schedule::kZeroBubble, 8, 1, 64, 18.546, 18.097, 9.321, 0.762, 0.0674},
    {Schedule::kZeroBubble, 16, 1, 64, 11.307, 11.254, 8.101, 0.379, 0.1088},
    {Schedule::kZeroBubble, 16, 1, 128, 11.325, 11.308, 8.109, 0.378, 0.0576},
    {Schedule::kZeroBubble, 16, 1, 48, 11.347, 11.248, 8.132, 0.377, 0.1397},
    {Schedule::kZeroBubble2, 8, 1, 24, 18.522, 18.086, 9.337, 0.601, 0.0433},
    {Schedule::kZeroBubble2, 8, 1, 32, 18.513, 18.086, 9.331, 0.626, 0.0039},
    {Schedule::kZeroBubble2, 8, 1, 64, 18.546, 18.097, 9.321, 0.762, 0.0026},
    {Schedule::kZeroBubble2, 16, 1, 48, 11.347, 11.248, 8.132, 0.377, 0.0066},
    {Schedule::kZeroBubble2, 16, 1, 64, 11.307, 11.254, 8.101, 0.379, 0.0054},
    {Schedule::kZeroBubble2, 16, 1, 128, 11.325, 11.308, 8.109, 0.378, 0.0028},
};

double bubble_of(const Row& row) {
  Pipeline p{.stages = row.stages, .chunks = row.chunks, .micro_batches = row.micro_batches, .schedule = row.schedule};
  const bool split = row.schedule != Schedule::k1F1B;
  const auto v = static_cast<double>(row.chunks);
  p.times.assign(static_cast<std::size_t>(row.stages * row.chunks),
                 {row.forward / v, (row.backward + (split ? 0 : row.weight)) / v, split ? row.weight / v : 0});
  p.edge = row.edge;
  const double busy = static_cast<double>(row.micro_batches) * (row.forward + row.backward + row.weight);
  return 1 - busy / run(p).seconds;
}

TEST(Pipeline, BubblesOf1F1BAndZeroBubbleEqualThePublishedTable) {
  for (const Row& row : kTable)
    if (row.chunks == 1) {
      EXPECT_NEAR(bubble_of(row), row.bubble, 0.0005)
          << name(row.schedule) << ", " << row.stages << " stages, " << row.micro_batches << " micro-batches";
    }
}

// Megatron-LM's interleaved order, as here, passes one more message per stage than the published one.
TEST(Pipeline, BubblesOfInterleaved1F1BAreWithin0004OfThePublishedTable) {
  for (const Row& row : kTable)
    if (row.chunks > 1) {
      EXPECT_NEAR(bubble_of(row), row.bubble, 0.004)
          << row.stages << " stages, " << row.micro_batches << " micro-batches";
    }
}

// Stages whose passes all take as long and messages that take no time: (p - 1) / (v m) of the computing is added.
TEST(Pipeline, WithoutMessagesTheBubbleIsTheClosedForm) {
  for (const std::int64_t chunks : {1, 2, 4}) {
    Pipeline p{.stages = 4, .chunks = chunks, .micro_batches = 16};
    const auto v = static_cast<double>(chunks);
    p.times.assign(static_cast<std::size_t>(4 * chunks), {1 / v, 2 / v, 0});
    EXPECT_NEAR(run(p).seconds, 16 * 3 * (1 + 3 / (16 * v)), 1e-9) << chunks << " chunks";
  }
}

// With equal passes and free messages, ZB-H2 has no bubble at all (the paper's section 3).
TEST(Pipeline, ZeroBubbleWithTwiceTheMemoryHasNoneWherePassesAreEqual) {
  for (const std::int64_t stages : {2, 4, 8}) {
    Pipeline p{.stages = stages, .chunks = 1, .micro_batches = 3 * stages, .schedule = Schedule::kZeroBubble2};
    p.times.assign(static_cast<std::size_t>(stages), {1, 1, 1});
    EXPECT_NEAR(run(p).seconds, 3.0 * 3 * static_cast<double>(stages), 1e-9) << stages << " stages";
  }
}

TEST(Pipeline, OneStageHasNoBubble) {
  Pipeline p{.stages = 1, .chunks = 1, .micro_batches = 5, .times = {{1, 2, 0}}, .edge = 7};
  EXPECT_DOUBLE_EQ(run(p).seconds, 15);
}

// A stage that takes twice as long bounds the pipeline: of 8 micro-batches it does 8 × 6 s, and the first one reaches
// it after 1 s and leaves it 2 s before the end.
TEST(Pipeline, TheSlowestStageBoundsThePipeline) {
  Pipeline p{.stages = 2, .chunks = 1, .micro_batches = 8, .times = {{1, 2, 0}, {2, 4, 0}}};
  EXPECT_DOUBLE_EQ(run(p).seconds, 1 + 8 * 6 + 2);
}

}  // namespace
}  // namespace weft::training
