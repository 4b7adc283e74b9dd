#include "plan/tune/nccl/search.h"

#include <gtest/gtest.h>

#include "machine/machine.h"

namespace weft::tune::nccl {
namespace {

Result<System> system_on(std::string_view machine, Rank ranks = -1) {
  auto topology = topology::load_machine(machine);
  EXPECT_TRUE(topology.has_value()) << machine;
  const cost::MachineView view(std::move(*topology), protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu));
  return system_of(view, ranks < 0 ? view.endpoints() : ranks);
}

// 12 links of 20 GB/s carry six rings at 40, doubled: 12 at 20, and again: the 24 channels that NCCL reports there.
TEST(NcclSearch, FindsTheRingsOfADgxA100) {
  const System s = *system_on("dgx-a100");
  EXPECT_EQ(s.compute_capability, 80);
  EXPECT_EQ(s.ring, (Graph{12, 20, 20, true, true}));
  EXPECT_EQ(s.channels, 24);
  EXPECT_EQ(s.nvls.channels, 0) << "NVSwitch 2 does not reduce";
}

// 18 links of 20.6 GB/s: six rings at 60, doubled to 12 at 30; 24 channels. A head per GPU: 8 * 40 <= 370.8 < 8 * 50.
TEST(NcclSearch, FindsRingsAndHeadsOfADgxH100) {
  const System s = *system_on("dgx-h100");
  EXPECT_EQ(s.ring, (Graph{12, 30, 30, true, true}));
  EXPECT_EQ(s.channels, 24);
  EXPECT_EQ(s.nvls, (Graph{8, 40, 60, true, true}));
}

// The NICs behind PCIe 5 would carry 48 GB/s each, but the GPUs' ports only eight times 45.
TEST(NcclSearch, BindsRingsToTheNicsBetweenNodes) {
  const System s = *system_on("dgx-h100:nodes=2");
  EXPECT_EQ(s.nodes, 2);
  EXPECT_EQ(s.ring, (Graph{8, 45, 45, true, true}));
  EXPECT_EQ(s.channels, 16);
  EXPECT_EQ(s.nvls, (Graph{8, 45, 48, true, true}));
}

// All ranks take the narrowest of what any of them finds.
TEST(NcclSearch, AFaultNarrowsTheGraphsOnWhicheverNodeItIs) {
  const auto with_slow_nic_on = [](std::int32_t node) {
    const topology::Topology healthy = topology::load_machine("dgx-h100:nodes=4,net=ib-ndr").value();
    topology::Topology slower;
    for (const auto& d : healthy.devices()) slower.add(d);
    bool changed = false;
    for (topology::Link l : healthy.links()) {
      if (!changed && l.kind == topology::LinkKind::kNetwork && healthy.device(l.a).node == node) {
        l.rate_ab = l.rate_ba = l.rate_ab * 0.25;
        changed = true;
      }
      slower.connect(l);
    }
    const cost::MachineView view(std::move(slower), protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu));
    return *system_of(view, view.endpoints());
  };
  EXPECT_EQ(with_slow_nic_on(0).nvls, with_slow_nic_on(3).nvls);
  EXPECT_EQ(with_slow_nic_on(0).ring, with_slow_nic_on(3).ring);
  EXPECT_NE(with_slow_nic_on(3).nvls, system_on("dgx-h100:nodes=4,net=ib-ndr")->nvls);
}

// Six NVLinks of 20 GB/s per GPU in the hybrid cube mesh.
TEST(NcclSearch, FindsRingsInTheCubeMesh) {
  const System s = *system_on("dgx1-v100");
  EXPECT_DOUBLE_EQ(s.ring.channels * s.ring.intra, 120);
  EXPECT_TRUE(s.ring.nvlink);
}

TEST(NcclSearch, GoesOverPcieWhereThereIsNoNvlink) {
  const System s = *system_on("pcie-2x4090");
  EXPECT_FALSE(s.ring.nvlink);
  EXPECT_FALSE(s.ll128);
  EXPECT_GT(s.ring.channels * s.ring.intra, 20);  // PCIe 4.0 x16: 24
}

// Four adapters of 100 Gb/s each per GPU are one NIC of 400 to NCCL; 75 us is what the plugin says.
TEST(NcclSearch, KnowsWhatTheNetworksPluginSays) {
  const System s = *system_on("aws-p5:nodes=2");
  EXPECT_DOUBLE_EQ(s.net_latency, 75);
  EXPECT_NEAR(s.nic, 48, 3);
  EXPECT_TRUE(s.amd_cpu);
  EXPECT_TRUE(system_on("aws-p4d:nodes=2")->only_simple);
  EXPECT_EQ(system_on("dgx-h100:nodes=2")->net_latency, 0);
}

TEST(NcclSearch, RefusesWhatNcclDoesNotRunOn) {
  const auto amd = system_on("mi300x");
  ASSERT_FALSE(amd.has_value());
  EXPECT_EQ(amd.error().message, "NCCL runs on NVIDIA GPUs; gpu0 is 'MI300X'");
  EXPECT_EQ(amd.error().code, Code::kUnsupported);
  EXPECT_FALSE(system_on("dgx-h100:nodes=2", 12).has_value());
}

}  // namespace
}  // namespace weft::tune::nccl
