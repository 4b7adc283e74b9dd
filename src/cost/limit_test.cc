#include "cost/limit.h"

#include <gtest/gtest.h>

#include "cost/shipped.h"
#include "topology/machine.h"

namespace weft::cost {
namespace {

TEST(Limit, AGpusPortIsWhatReachesOtherGpus) {
  // 18 links of 50 GB/s to the switch; the 225 GB/s to its CPU do not count.
  const auto machine = shipped_view(topology::load_machine("gb200-nvl72").value()).value();
  const schedule::Task task{
      .collective = Collective::kAllToAll, .ranks = 72, .ranks_per_node = 72, .elements = 72 << 20, .element_bytes = 4};
  const Limit found = limit(machine, task);
  EXPECT_EQ(found.resource, "GPU port 900 GB/s");
  EXPECT_NEAR(found.time.us(), 4.0 * (71 << 20) / 900e9 * 1e6, 0.1);
}

}  // namespace
}  // namespace weft::cost
