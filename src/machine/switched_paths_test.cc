#include "machine/switched_paths.h"

#include <gtest/gtest.h>

#include <set>

#include "machine/machine.h"

namespace weft::topology {
namespace {

struct Case {
  explicit Case(std::string_view name) : machine(load_machine(name).value()), routes(machine) {}

  std::vector<DeviceId> every(std::size_t stride) const {
    std::vector<DeviceId> some;
    const auto all = machine.endpoints();
    for (std::size_t i = 0; i < all.size(); i += stride) some.push_back(all[i]);
    return some;
  }
  // How many hops end at, or start from, devices of this kind.
  int ending_at(const Path& path, DeviceKind kind) const {
    int n = 0;
    for (const Hop& h : path.hops) {
      const Link& l = machine.link(h.link);
      n += machine.device(h.forward ? l.b : l.a).kind == kind;
    }
    return n;
  }

  Topology machine;
  Routes routes;
};

TEST(SwitchedPaths, ANodesSwitchSumsEverybodysDataAndSendsItOnce) {
  const Case c("dgx-h100");
  const auto gpus = c.every(1);
  const auto in = reduced_path(c.machine, c.routes, gpus, gpus[3]);
  ASSERT_TRUE(in);
  EXPECT_EQ(in->type, PathType::kNvl);
  EXPECT_EQ(in->hops.size(), 9u);  // eight up, the reader's own among them, one down
  EXPECT_EQ(c.ending_at(*in, DeviceKind::kNvSwitch), 8);
  EXPECT_DOUBLE_EQ(in->rate.gb(), 450);
  const auto out = multicast_path(c.machine, c.routes, gpus, gpus[3]);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->hops.size(), 9u);
  EXPECT_EQ(c.ending_at(*out, DeviceKind::kGpu), 8);
}

TEST(SwitchedPaths, OlderSwitchesDoNotSum) {
  for (const char* name : {"dgx-a100", "dgx2", "mi300x", "pcie-4x3090"}) {
    const Case c(name);
    const auto gpus = c.every(1);
    EXPECT_FALSE(reduced_path(c.machine, c.routes, gpus, gpus[0])) << name;
    EXPECT_FALSE(multicast_path(c.machine, c.routes, gpus, gpus[0])) << name;
  }
}

TEST(SwitchedPaths, ANetworkSumsWhereItIsSaidTo) {
  const Case without("dgx-h100:nodes=4,net=ib-ndr"), with("dgx-h100:nodes=4,net=ib-ndr,sharp=on");
  const auto rail = with.every(8);
  EXPECT_FALSE(path_from_switches(without.machine, without.routes, rail));
  const auto up = path_into_switch(with.machine, with.routes, rail, rail[2]);
  ASSERT_TRUE(up);
  EXPECT_EQ(up->type, PathType::kNet);
  EXPECT_EQ(with.ending_at(*up, DeviceKind::kNetworkSwitch), 1);
  const auto down = path_from_switches(with.machine, with.routes, rail);
  ASSERT_TRUE(down);
  EXPECT_EQ(with.ending_at(*down, DeviceKind::kGpu), 4);
  std::set<std::pair<LinkId, bool>> once;
  for (const Hop& h : down->hops) EXPECT_TRUE(once.insert({h.link, h.forward}).second);
}

TEST(SwitchedPaths, LeavesThatAreFarApartMeetAtASpine) {
  const Case c("dgx-h100:nodes=64,net=ib-ndr,sharp=on");
  const auto rail = c.every(8);
  const auto down = path_from_switches(c.machine, c.routes, rail);
  ASSERT_TRUE(down);
  EXPECT_EQ(c.ending_at(*down, DeviceKind::kGpu), 64);
  EXPECT_GT(c.ending_at(*down, DeviceKind::kNetworkSwitch), 1);
  const Case few("dgx-h100:nodes=4,net=ib-ndr,sharp=on");
  EXPECT_EQ(down->latency,
            path_from_switches(few.machine, few.routes, few.every(8))->latency + Duration::nanoseconds(500));
}

TEST(SwitchedPaths, AGroupOfOneNeedsNoSwitch) {
  const Case c("dgx-h100");
  const DeviceId one[] = {c.machine.endpoints()[0]};
  EXPECT_FALSE(reduced_path(c.machine, c.routes, one, one[0]));
  EXPECT_FALSE(path_from_switches(c.machine, c.routes, one));
}

TEST(SwitchedPaths, SharpIsRefusedWhereSwitchesCannotSum) {
  const auto refused = load_machine("dgx-h100:nodes=2,net=eth-400,sharp=on");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("sharp=on"), std::string::npos) << refused.error().message;
  EXPECT_FALSE(load_machine("dgx-h100:sharp=on"));
}

}  // namespace
}  // namespace weft::topology
