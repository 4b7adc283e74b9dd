#include "plan/cost/expert_kernels.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::cost {
namespace {

MachineView machine_named(const std::string& name) {
  return shipped_view(topology::load_machine(name).value()).value();
}

TEST(ExpertKernels, CarryDispatchAndCombineBetweenGpusOnly) {
  const MachineView gpus = machine_named("dgx-h100");
  EXPECT_TRUE(by_expert_kernels(gpus, Collective::kDispatch));
  EXPECT_TRUE(by_expert_kernels(gpus, Collective::kCombine));
  EXPECT_FALSE(by_expert_kernels(gpus, Collective::kAllToAll));
}

TEST(ExpertKernels, HaveCostsOnEveryGenerationInBothModes) {
  for (const char* name : {"dgx-a100", "dgx-h100", "hgx-b200", "mi300x"}) {
    const MachineView gpus = machine_named(name);
    for (const Collective c : {Collective::kDispatch, Collective::kCombine})
      for (const auto copies : {schedule::Copies::kPerRank, schedule::Copies::kPerExpert}) {
        const auto costs = expert_costs(gpus, c, gpus.endpoints(), {.copies = copies});
        ASSERT_TRUE(costs.has_value()) << name << ": " << costs.error().message;
        const Duration* launch = costs->launch(protocol::Protocol::kSimple);
        ASSERT_NE(launch, nullptr);
        EXPECT_GT(launch->us(), 5) << name;
        EXPECT_LT(launch->us(), 100) << name;
      }
  }
}

TEST(ExpertKernels, MoreMultiprocessorsMoveMoreAndKnownCountsStartSooner) {
  const MachineView nodes = machine_named("dgx-h100:nodes=4");
  const auto costs = [&](const ExpertKernel& kernel) {
    return expert_costs(nodes, Collective::kDispatch, 32, kernel).value();
  };
  const auto rate = [&](int multiprocessors) {
    return costs({.multiprocessors = multiprocessors}).find("NVL", protocol::Protocol::kSimple)->channel.value();
  };
  EXPECT_DOUBLE_EQ(rate(20) / rate(4), 5);
  EXPECT_GT(*costs({}).launch(protocol::Protocol::kSimple),
            *costs({.counts_known = true}).launch(protocol::Protocol::kSimple));
}

}  // namespace
}  // namespace weft::cost
