#include "net/tcp/tcp.h"
#include "exec/kernels/fold.h"
#include "net/mixed/mixed.h"
#include "net/ucx/ucx.h"

#include "tests/conformance/job.h"
#include "tests/processes.h"

namespace weft::conformance {
namespace {

using net::bootstrap::Host;
using net::bootstrap::Meeting;

constexpr std::chrono::seconds kLong{60};

using Limits = net::messages::WaitPolicy::Limits;

Limits limits_of(Rank ranks) { return {.spins = ranks > 2 ? 1 : 200, .timeout = kLong}; }

template <int kSockets>
Result<std::unique_ptr<net::messages::World>> over_tcp(Meeting meeting, Rank rank, Limits limits) {
  const net::tcp::Options options{
      .sockets = kSockets, .zero_copy = net::tcp::ZeroCopy::kAlways, .fold_of = exec::fold_of_reduction};
  return net::tcp::open(std::move(meeting), rank, options, limits);
}

Result<std::unique_ptr<net::messages::World>> over_ucx(Meeting meeting, Rank rank, Limits limits) {
  WEFT_TRY(auto context, net::ucx::open_context());
  return net::ucx::open(std::move(context), std::move(meeting), rank, limits);
}

template <auto kAcross>
Result<std::unique_ptr<net::mixed::World>> over_both(Meeting meeting, Rank rank, Limits limits) {
  const auto across = [&](Meeting met, Rank own) { return kAcross(std::move(met), own, limits); };
  return net::mixed::open(std::move(meeting), rank, {.name = "mixed", .across = across, .limits = limits});
}

// The machine that a rank says it is on.
using Placement = Rank (*)(Rank);
Rank together(Rank) { return 0; }
Rank apart(Rank rank) { return rank; }
Rank in_turn(Rank rank) { return rank % 2; }  // neighbours are far from each other, every other rank is near
Rank in_pairs(Rank rank) { return rank / 2; }

fabric::Capabilities mixed() { return net::mixed::capabilities("mixed"); }

fabric::Capabilities with_a_node() {
  auto can = net::tcp::capabilities();
  can.aggregation = true;
  return can;
}

template <auto kOpen, Placement kPlacement, bool kAggregates = false>
std::vector<std::string> run(const Job& job) {
  auto host = Host::open(net::link::loopback(), job.ranks()).value();
  std::vector<tests::Process> ranks;
  for (Rank r = 0; r < job.ranks(); ++r)
    ranks.emplace_back([&, r](tests::Report& report) {
      const net::bootstrap::UniqueId id = host.id();
      host.forget();
      auto meeting = net::bootstrap::meet({.id = id,
                                           .rank = r,
                                           .ranks = job.ranks(),
                                           .node = fmt::format("machine {}", kPlacement(r)),
                                           .timeout = kLong,
                                           .aggregates = kAggregates});
      if (!meeting) return report.say(meeting.error().message);
      auto world = kOpen(std::move(*meeting), r, limits_of(job.ranks()));
      if (!world) return report.say(world.error().message);
      exec::WorldExecutor<typename std::remove_reference_t<decltype(**world)>> executor(std::move(*world));
      report.say(run_rank(executor, job));
    });
  std::vector<std::string> wrong;
  if (const Status met = host.serve(kLong); !met) wrong.push_back(met.error().message);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const tests::Outcome outcome = ranks[r].join();
    if (!outcome.ended_well()) wrong.push_back(fmt::format("rank {} {}", r, outcome.how()));
    if (!outcome.said.empty()) wrong.push_back(outcome.said);
  }
  return wrong;
}

}  // namespace

const FabricUnderTest kTcp{"tcp", {protocol::Protocol::kSimple}, net::tcp::capabilities, run<over_tcp<1>, together>};
const FabricUnderTest kStripedTcp{
    "striped_tcp", {protocol::Protocol::kSimple}, net::tcp::capabilities, run<over_tcp<3>, together>};
const FabricUnderTest kSummingTcp{
    "summing_tcp", {protocol::Protocol::kSimple}, with_a_node, run<over_tcp<2>, together, true>};
const FabricUnderTest kUcx{
    "ucx", {protocol::Protocol::kSimple}, net::ucx::capabilities, run<over_ucx, together>, net::ucx::available};
const FabricUnderTest kUcxAcross{
    "ucx_across", {protocol::Protocol::kSimple}, net::ucx::capabilities, run<over_ucx, apart>, net::ucx::available};
const FabricUnderTest kMixedInTurn{
    "mixed_in_turn", {protocol::Protocol::kSimple}, mixed, run<over_both<over_tcp<1>>, in_turn>};
const FabricUnderTest kMixedInPairs{
    "mixed_in_pairs", {protocol::Protocol::kSimple}, mixed, run<over_both<over_tcp<1>>, in_pairs>};
const FabricUnderTest kMixedUcxInTurn{
    "mixed_ucx_in_turn", {protocol::Protocol::kSimple}, mixed, run<over_both<over_ucx>, in_turn>, net::ucx::available};
const FabricUnderTest kMixedUcxInPairs{"mixed_ucx_in_pairs",
                                       {protocol::Protocol::kSimple},
                                       mixed,
                                       run<over_both<over_ucx>, in_pairs>,
                                       net::ucx::available};

}  // namespace weft::conformance
