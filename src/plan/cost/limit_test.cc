#include "plan/cost/limit.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "plan/cost/shipped.h"

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

Limit limit_on(const std::string& name, Collective collective, Bytes bytes) {
  const auto machine = shipped_view(topology::load_machine(name).value()).value();
  const Rank ranks = machine.endpoints();
  return limit(machine, {.collective = collective,
                         .ranks = ranks,
                         .ranks_per_node = machine.ranks_per_node(ranks),
                         .elements = bytes / 4,
                         .element_bytes = 4});
}

TEST(Limit, OfAnAllToAllIsWhatANodesRanksSendToOtherNodes) {
  // Each of 8 ranks sends 56 of its 64 parts to other nodes, through 8 NICs of 50 GB/s: 56 MiB / 50 GB/s.
  const Limit found = limit_on("dgx-h100:nodes=8,net=ib-ndr", Collective::kAllToAll, 64 << 20);
  EXPECT_EQ(found.resource, "node's NICs 400 GB/s");
  EXPECT_NEAR(found.time.us(), 1174.4, 0.1);
}

TEST(Limit, OfOneRankPerNodeIsTheGpusPciePort) {
  // NVLink leads to no other rank: 1.5 times 64 MiB through PCIe 5 x16 at 63.0 GB/s.
  const Limit found = limit_on("dgx-h100:nodes=4,net=ib-ndr,gpus=1", Collective::kAllReduce, 64 << 20);
  EXPECT_EQ(found.resource, "GPU port 63.0 GB/s");
  EXPECT_NEAR(found.time.us(), 1597.4, 0.5);
}

TEST(Limit, OfInstancesOfAGpuIsWhatTheyAllSendThroughItsPort) {
  // Four halves of two H100s make 2 * 3 messages of 64 MiB, each through one of two PCIe ports at 63.0 GB/s.
  const Limit found = limit_on("dgx-h100:mig=2,gpus=4", Collective::kAllReduce, 64 << 20);
  EXPECT_EQ(found.resource, "GPU port 63.0 GB/s of 2 instances");
  EXPECT_NEAR(found.time.us(), 3195, 3);
  // A broadcast comes once into every instance: 2 * 64 MiB through the port without the root.
  EXPECT_NEAR(limit_on("dgx-h100:mig=2,gpus=4", Collective::kBroadcast, 64 << 20).time.us(), 2130, 2);
}

TEST(Limit, OfGpusThatLinksJoinInPairsCountsPcieToo) {
  // A bridge joins two and two of four GPUs, the others meet over PCIe: 1.5 * 64 MiB through 56.3 + 31.5 GB/s.
  const Limit found = limit_on("pcie-4x3090", Collective::kAllReduce, 64 << 20);
  EXPECT_EQ(found.resource, "GPU port 87.8 GB/s");
  EXPECT_NEAR(found.time.us(), 1147, 2);
}

TEST(Limit, OfAGatherIsWhatTheRootsNodeTakesIn) {
  // 56 of 64 parts come through the root's node's NICs: 56 MiB / 400 GB/s. But the root's own ports take 63 of 64
  // parts: NVLink 450 GB/s and PCIe 5 x16 63 GB/s, which is less time.
  const Limit found = limit_on("dgx-h100:nodes=8,net=ib-ndr", Collective::kGather, 64 << 20);
  EXPECT_EQ(found.resource, "node's NICs 400 GB/s");
  EXPECT_NEAR(found.time.us(), 146.8, 0.1);
}

TEST(Limit, OfOversubscribedNetworksIsWhatLeafGroupsSendToEachOther) {
  // Leaves with four times as many links down as up: a group's nodes together send a quarter of what their NICs could.
  const Limit full = limit_on("dgx-h100:nodes=64,net=ib-ndr,wires=fat-tree", Collective::kAllToAll, 64 << 20),
              narrow =
                  limit_on("dgx-h100:nodes=64,net=ib-ndr,wires=fat-tree,oversub=4", Collective::kAllToAll, 64 << 20);
  EXPECT_EQ(full.resource, "node's NICs 400 GB/s");
  EXPECT_GT(narrow.time, full.time * 1.5);
  EXPECT_NE(narrow.resource.find("leaf group's uplinks"), std::string::npos) << narrow.resource;
}

}  // namespace
}  // namespace weft::cost
