#include "model/predict/estimate_gap.h"

#include <gtest/gtest.h>

namespace weft::predict {
namespace {

Duration us(double microseconds) { return Duration::microseconds(microseconds); }

simulate::Outcome spent(std::vector<sim::PathShare> why) {
  simulate::Outcome outcome;
  for (const sim::PathShare& share : why) outcome.time = outcome.time + share.time;
  outcome.why = std::move(why);
  return outcome;
}

TEST(EstimateGap, NearEstimatesNeedNoReason) {
  const auto outcome = spent({{sim::Cause::kHop, "", us(100)}});
  EXPECT_EQ(estimate_gap({.total = us(119), .launch = {}, .latency = us(119), .work = {}}, outcome), "");
  EXPECT_NE(estimate_gap({.total = us(121), .launch = {}, .latency = us(121), .work = {}}, outcome), "");
}

TEST(EstimateGap, NamesThePartThatDiffersMost) {
  const auto outcome = spent({{sim::Cause::kHop, "", us(50)},
                              {sim::Cause::kLink, "nic3 -> switch0", us(100)},
                              {sim::Cause::kSlot, "", us(50)}});
  EXPECT_EQ(estimate_gap({.total = us(300), .launch = {}, .latency = us(190), .work = {}}, outcome),
            "the estimate is 50 % longer: launch and hops 190.0 us instead of 50.0, bytes 110.0 us instead of 100.0, "
            "waits 0.0 us instead of 50.0; the estimate adds hops up that pass while other chunks are sent");
  const std::string shorter = estimate_gap({.total = us(80), .launch = {}, .latency = us(40), .work = {}}, outcome);
  EXPECT_NE(shorter.find("60 % shorter"), std::string::npos) << shorter;
  EXPECT_NE(shorter.find("nic3 -> switch0 has more users"), std::string::npos) << shorter;
  const std::string waits = estimate_gap({.total = us(145), .launch = {}, .latency = us(45), .work = {}}, outcome);
  EXPECT_NE(waits.find("full slots"), std::string::npos) << waits;
}

TEST(EstimateGap, SaysNothingWithoutACriticalPath) {
  simulate::Outcome outcome;
  outcome.time = us(100);
  EXPECT_EQ(estimate_gap({.total = us(300), .launch = {}, .latency = us(190), .work = {}}, outcome), "");
}

}  // namespace
}  // namespace weft::predict
