#include "plan/cost/node_classes.h"

#include <gtest/gtest.h>

#include <set>

#include "machine/machine.h"
#include "plan/cost/machine_view.h"

namespace weft::cost {
namespace {

using topology::Topology;

std::size_t classes_of(const Topology& t) {
  const auto classes = node_classes(t);
  return std::set(classes.begin(), classes.end()).size();
}

TEST(NodeClasses, NodesOfOnePresetAreAlikeHoweverManyHangOnASwitch) {
  for (const char* name : {"dgx-h100:nodes=64,net=ib-ndr", "dgx-h100:nodes=60,net=ib-ndr,wires=fat-tree,oversub=4",
                           "dgx-a100:nodes=37", "gb200-nvl72:nodes=4", "gh200:nodes=100,net=ib-ndr,wires=switch",
                           "mi300x:nodes=16", "aws-p5:nodes=20", "dgx-h100:nodes=64,tiers=3"})
    EXPECT_EQ(classes_of(topology::load_machine(name).value()), 1u) << name;
}

TEST(NodeClasses, ANodeWithASlowerLinkIsOfItsOwn) {
  const Topology healthy = topology::load_machine("dgx-h100:nodes=64,net=ib-ndr").value();
  Topology slower;
  for (const auto& d : healthy.devices()) slower.add(d);
  bool changed = false;
  for (topology::Link l : healthy.links()) {
    if (!changed && healthy.device(l.a).node == 40 && l.kind == topology::LinkKind::kNetwork) {
      l.rate_ab = l.rate_ab * 0.5;
      changed = true;
    }
    slower.connect(l);
  }
  ASSERT_TRUE(changed);
  const auto classes = node_classes(slower);
  for (std::size_t node = 0; node < classes.size(); ++node) EXPECT_EQ(classes[node], node == 40 ? 1 : 0);
}

}  // namespace
}  // namespace weft::cost
