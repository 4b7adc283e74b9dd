#include "api/this_machine.h"

#include <gtest/gtest.h>

#include "plan/cost/limit.h"

namespace weft::api {
namespace {

using protocol::HopCost;
using protocol::HopCosts;
using protocol::Protocol;

HopCost hop_by(const calibrate::Rates& rates, Carrier carrier) {
  return *this_network(rates, carrier, 1).value().costs().find("NET", Protocol::kSimple);
}

TEST(Networks, HaveTheShippedCostsOfTheirCarrierWhereNothingWasMeasured) {
  const HopCosts shipped = HopCosts::shipped(HopCosts::Endpoint::kCpu);
  const std::pair<Carrier, const char*> paths[] = {
      {Carrier::kTcp, "NET"}, {Carrier::kUcx, "UCX"}, {Carrier::kUcxAcross, "UCX-NET"}};
  for (const auto& [carrier, path] : paths) {
    EXPECT_EQ(hop_by(calibrate::typical(), carrier).least, shipped.find(path, Protocol::kSimple)->least) << path;
    EXPECT_EQ(hop_by(calibrate::typical(), carrier).overhead, shipped.find(path, Protocol::kSimple)->overhead) << path;
  }
}

TEST(Networks, HaveTheMeasuredCostsOfTheirCarrier) {
  calibrate::Rates rates = calibrate::typical();
  rates.ucx = Duration::microseconds(2);
  rates.ucx_connection = BytesPerSecond::gigabytes(5);
  rates.ucx_across = Duration::microseconds(20);
  rates.ucx_across_connection = BytesPerSecond::gigabytes(1);
  EXPECT_EQ(hop_by(rates, Carrier::kUcx).least, rates.ucx);
  EXPECT_EQ(hop_by(rates, Carrier::kUcx).channel.value(), 5e9);
  EXPECT_EQ(hop_by(rates, Carrier::kUcxAcross).least, rates.ucx_across);
  EXPECT_EQ(hop_by(rates, Carrier::kTcp).least, hop_by(calibrate::typical(), Carrier::kTcp).least);  // not measured
}

// Two machines of two ranks: UCX reaches ranks of the same machine faster.
TEST(Networks, OfMachinesKnowTwoWaysOfUcx) {
  constexpr Carrier kWithin = Carrier::kUcx;
  const auto machines = these_machines(calibrate::typical(), Carrier::kUcxAcross, 2, 2, &kWithin).value();
  const HopCost* const across = machines.costs().find("NET", Protocol::kSimple);
  const HopCost* const within = machines.costs().find("PHB", Protocol::kSimple);
  EXPECT_EQ(within->least, hop_by(calibrate::typical(), Carrier::kUcx).least);
  EXPECT_EQ(across->least, hop_by(calibrate::typical(), Carrier::kUcxAcross).least);
  EXPECT_LT(within->least, across->least);
}

// All wait for all in a sum; the root of a broadcast may be several calls ahead.
TEST(ThisMachine, BoundsByTurnsOfSharedCoresOnlyWhereRanksWaitForEachOther) {
  const auto machine = this_machine(calibrate::typical()).value();
  if (machine->endpoints() < 2) GTEST_SKIP() << "between the ranks of one core no cache line crosses";
  const auto limit_of = [&](Collective collective) {
    const Rank ranks = 4 * machine->endpoints();
    return cost::limit(*machine, {.collective = collective, .ranks = ranks, .ranks_per_node = ranks, .elements = 2});
  };
  EXPECT_EQ(limit_of(Collective::kAllReduce).resource, "context switch");
  EXPECT_EQ(limit_of(Collective::kBroadcast).resource, "one cache line");
}

}  // namespace
}  // namespace weft::api
