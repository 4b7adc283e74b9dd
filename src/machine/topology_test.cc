#include "machine/topology.h"

#include <gtest/gtest.h>

namespace weft::topology {
namespace {

Device device(DeviceKind kind, std::int32_t node, std::int32_t index) {
  return {.kind = kind, .node = node, .index = index, .model = {}, .bus_id = {}, .port_rate = {}};
}

Link link(DeviceId a, DeviceId b, double gb) {
  return {.kind = LinkKind::kPcie,
          .a = a,
          .b = b,
          .rate_ab = BytesPerSecond::gigabytes(gb),
          .rate_ba = BytesPerSecond::gigabytes(gb),
          .latency = {},
          .count = 1};
}

TEST(Topology, EndpointsAreGpusByNodeAndIndexWhateverTheOrderTheyWereAddedIn) {
  Topology t;
  const DeviceId third = t.add(device(DeviceKind::kGpu, 1, 0));
  const DeviceId second = t.add(device(DeviceKind::kGpu, 0, 1));
  const DeviceId first = t.add(device(DeviceKind::kGpu, 0, 0));
  t.add(device(DeviceKind::kCore, 0, 0));
  EXPECT_EQ(t.endpoints(), (std::vector<DeviceId>{first, second, third}));
  EXPECT_EQ(t.nodes(), 2);
  EXPECT_EQ(t.name_of(third), "node1/gpu0");
}

TEST(Topology, CoresAreEndpointsOnlyWithoutGpus) {
  Topology t;
  const DeviceId core = t.add(device(DeviceKind::kCore, 0, 0));
  EXPECT_EQ(t.endpoints(), std::vector<DeviceId>{core});
  EXPECT_EQ(t.name_of(core), "core0");
}

TEST(Topology, LinksAreSeenFromBothEnds) {
  Topology t;
  const DeviceId a = t.add(device(DeviceKind::kGpu, 0, 0)), b = t.add(device(DeviceKind::kCpu, 0, 0));
  const LinkId l = t.connect(link(a, b, 1));
  EXPECT_EQ(t.other_end(l, a), b);
  EXPECT_EQ(t.other_end(l, b), a);
  EXPECT_EQ(t.links_of(b).size(), 1u);
}

TEST(Topology, ValidationNamesWhatIsWrong) {
  Topology t;
  t.title = "box";
  EXPECT_EQ(t.validate().error().message, "'box' has neither a GPU nor a CPU core that a rank could sit on");
  const DeviceId a = t.add(device(DeviceKind::kGpu, 0, 0));
  EXPECT_TRUE(t.validate());
  const DeviceId b = t.add(device(DeviceKind::kGpu, 0, 1));
  EXPECT_EQ(t.validate().error().message, "gpu1 cannot reach gpu0");
  t.connect(link(a, b, 0));
  EXPECT_EQ(t.validate().error().message, "the PCIe link between gpu0 and gpu1 has no bandwidth");
}

}  // namespace
}  // namespace weft::topology
