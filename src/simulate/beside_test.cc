#include <gtest/gtest.h>

#include "simulate/simulate.h"
#include "simulate/test_machine.h"
#include "topology/machine.h"

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

}  // namespace
}  // namespace weft::simulate
