#include "apps/kernels/host.h"

#include <gtest/gtest.h>

namespace weft::kernels {
namespace {

TEST(Host, AGpuWaitsForLaunchesThatItsKernelsDoNotHide) {
  EXPECT_EQ(waits_for_host(Launch::kGraphs, 3, 1), 0);
  EXPECT_EQ(waits_for_host(Launch::kEager, 3, 1), 2);
  EXPECT_EQ(waits_for_host(Launch::kEager, 1, 3), 0);
  EXPECT_EQ(waits_for_host(Launch::kBlocking, 1, 3), 1);
}

TEST(Host, LaunchesAreReadByName) {
  EXPECT_EQ(parse_launch("graphs").value(), Launch::kGraphs);
  EXPECT_EQ(parse_launch("eager").value(), Launch::kEager);
  EXPECT_EQ(parse_launch("blocking").value(), Launch::kBlocking);
  const auto none = parse_launch("lazy");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "--launch lazy: graphs, eager or blocking");
  EXPECT_NEAR(eager_kernel(), 36e-6, 1e-9);
}

}  // namespace
}  // namespace weft::kernels
