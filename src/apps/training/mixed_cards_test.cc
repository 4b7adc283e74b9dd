// Machines of two kinds of nodes.
#include <gtest/gtest.h>

#include "apps/training/answer.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::training {
namespace {

TEST(MixedCards, AllWaitForTheSlowestWhichIsSaid) {
  topology::Topology t = topology::load_machine("dgx-h100:nodes=2,net=ib-ndr").value();
  for (const topology::DeviceId gpu : t.devices_of(topology::DeviceKind::kGpu))
    if (t.device(gpu).node == 1) t.set_model(gpu, "A100-SXM4-40GB");
  const auto mixed = cost::shipped_view(t);
  Words words;
  words.on = "mixed";
  const Question asked = understand(load_model("llama3-8b").value(), *mixed, words).value();
  EXPECT_EQ(asked.card.name, "A100-SXM4-40GB");
  EXPECT_NE(asked.card.among.find("8 A100-SXM4-40GB, 8 H100-SXM5"), std::string::npos) << asked.card.among;
  EXPECT_NE(asked.card.among.find("shares of the batch"), std::string::npos);
  EXPECT_LT(asked.card.memory, 45e9);  // the least of both

  const auto alike = cost::shipped_view(topology::load_machine("dgx-h100:nodes=2,net=ib-ndr").value());
  EXPECT_EQ(understand(load_model("llama3-8b").value(), *alike, words)->card.among, "");
}

}  // namespace
}  // namespace weft::training
