#include "net/tcp/tcp.h"

#include "tests/conformance/job.h"
#include "tests/processes.h"

namespace weft::conformance {
namespace {

using net::bootstrap::Host;
using net::bootstrap::Meeting;

constexpr std::chrono::seconds kLong{60};

std::unique_ptr<net::tcp::World> join(const net::bootstrap::UniqueId& id, Rank rank, Rank ranks, int sockets,
                                      tests::Report& report) {
  auto meeting = net::bootstrap::meet({.id = id, .rank = rank, .ranks = ranks, .timeout = kLong});
  if (!meeting) {
    report.say(meeting.error().message);
    return nullptr;
  }
  return std::make_unique<net::tcp::World>(std::move(*meeting), rank,
                                           net::tcp::Options{.sockets = sockets, .timeout = kLong},
                                           net::tcp::Patience::Limits{.spins = ranks > 2 ? 1 : 200, .timeout = kLong});
}

fabric::Capabilities capabilities() {
  Meeting alone;
  alone.ranks.resize(1);
  return net::tcp::Endpoint(std::move(alone), 0, {}).capabilities();
}

template <int kSockets>
std::vector<std::string> run(const Job& job) {
  auto host = Host::open(net::bootstrap::loopback(), job.ranks()).value();
  std::vector<tests::Process> ranks;
  for (Rank r = 0; r < job.ranks(); ++r)
    ranks.emplace_back([&, r](tests::Report& report) {
      const net::bootstrap::UniqueId id = host.id();
      host.forget();
      auto world = join(id, r, job.ranks(), kSockets, report);
      if (!world) return;
      exec::WorldExecutor<net::tcp::World> executor(std::move(world));
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

const FabricUnderTest kTcp{"tcp", {protocol::Protocol::kSimple}, capabilities, run<1>};
const FabricUnderTest kStripedTcp{"striped_tcp", {protocol::Protocol::kSimple}, capabilities, run<3>};

}  // namespace weft::conformance
