#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/simulate/simulate.h"
#include "model/simulate/test_machine.h"

namespace weft::simulate {
namespace {

double slowdown(const cost::MachineView& machine, Rank first) {
  const exec::VirtualJob own = broadcast(machine, 0), other = broadcast(machine, first);
  const auto alone = simulate(machine, own.task, own.plan),
             beside = simulate(machine, own.task, own.plan, {.beside = {other}});
  EXPECT_TRUE(alone && beside) << (beside ? "" : beside.error().message);
  return alone && beside ? beside->time / alone->time : 0;
}

TEST(Beside, TwoJobsThatShareALinkTakeTwiceAsLong) {
  const auto machine = cost::shipped_view(two_switches()).value();
  EXPECT_NEAR(slowdown(machine, 2), 2, 0.02);  // 0 -> 1 and 2 -> 3
}

TEST(Beside, JobsOnOtherLinksDoNotMatter) {
  const auto machine = cost::shipped_view(topology::load_machine("dgx-h100:nodes=4,net=ib-ndr,wires=switch").value());
  ASSERT_TRUE(machine.has_value());
  EXPECT_NEAR(slowdown(*machine, 8), 1, 1e-9);
}

TEST(Beside, APausingJobTakesLess) {
  // One call beside: half of the time shares the link, and the rest has it alone. The other's 64 MiB and this one's
  // 256 MiB: 2 * 64 + 192 = 320 of 256.
  const auto machine = cost::shipped_view(two_switches()).value();
  const exec::VirtualJob own = broadcast(machine, 0);
  exec::VirtualJob other = broadcast(machine, 2);
  other.task.elements /= 4;
  other.calls = 1;
  const auto alone = simulate(machine, own.task, own.plan),
             beside = simulate(machine, own.task, own.plan, {.beside = {other}});
  ASSERT_TRUE(alone && beside);
  EXPECT_NEAR(beside->time / alone->time, 1.25, 0.02);
}

// 64 MiB from rank 0 to rank 1 as packets, compared with the same alone.
double slowdown_by(const cost::MachineView& machine, const exec::VirtualJob& other, std::vector<double> weights) {
  const exec::VirtualJob own = broadcast(machine, 0);
  const sim::PacketOptions packets{.weights = std::move(weights)};
  const auto alone = simulate(machine, own.task, own.plan, {.packets = packets}),
             beside = simulate(machine, own.task, own.plan, {.packets = packets, .beside = {other}});
  EXPECT_TRUE(alone && beside) << (beside ? "" : beside.error().message);
  return alone && beside ? beside->time / alone->time : 0;
}

TEST(Classes, ShareALinkByWeight) {
  const auto machine = cost::shipped_view(two_switches()).value();
  exec::VirtualJob other = broadcast(machine, 2);
  EXPECT_NEAR(slowdown_by(machine, other, {3, 1}), 2, 0.1);  // both are of class 0
  other.service = 1;
  EXPECT_NEAR(slowdown_by(machine, other, {3, 1}), 4.0 / 3, 0.05);
  EXPECT_NEAR(slowdown_by(machine, other, {1, 3}), 4, 0.2);
}

TEST(Classes, ProtectAJobFromAnothersIncast) {
  // Ranks 2, 4 and 5 send to 3, of which 2 and 4 use the link that 0 needs on its way to 1. What waits there for 3
  // takes up the room behind that link, also for what goes to 1; a class has room of its own, and 16 of 17 parts of the
  // link.
  const auto machine = cost::shipped_view(two_switches(6)).value();
  exec::VirtualJob incast = broadcast(machine, 2);
  incast.task.collective = Collective::kGather;
  incast.task.ranks = 4;
  incast.task.root = 1;
  incast.plan = make_plan(incast.task, **collectives::find_algorithm(Collective::kGather, "direct"),
                          protocol::Protocol::kSimple, 4, sim::flow_capabilities(machine.topology(), 64), true);
  incast.plan.first = 2;
  EXPECT_GT(slowdown_by(machine, incast, {16, 1}), 1.6);
  incast.service = 1;
  EXPECT_LT(slowdown_by(machine, incast, {16, 1}), 17.0 / 16 + 0.05);
}

}  // namespace
}  // namespace weft::simulate
