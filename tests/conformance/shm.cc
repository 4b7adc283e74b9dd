#include "net/shm/shm.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/job.h"
#include "tests/processes.h"

namespace weft::conformance {
namespace {

net::shm::Options options(Rank rank, Rank ranks, const std::string& id) {
  return {.id = id,
          .rank = rank,
          .ranks = ranks,
          .heap_bytes = Bytes{64} << 20,
          .limits = {.timeout = std::chrono::seconds(60)}};
}

fabric::Capabilities capabilities() {
  return net::shm::attach(options(0, 1, tests::fresh_id("capabilities"))).value()->endpoint.capabilities();
}

std::vector<std::string> run(const Job& job) {
  const std::string id = tests::fresh_id("conformance");
  std::vector<tests::Process> ranks;
  for (Rank r = 0; r < job.ranks(); ++r)
    ranks.emplace_back([&, r](tests::Report& report) {
      auto world = net::shm::attach(options(r, job.ranks(), id));
      if (!world) return report.say(world.error().message);
      exec::WorldExecutor<net::shm::World> executor(std::move(*world));
      report.say(run_rank(executor, job));
    });
  std::vector<std::string> wrong;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const tests::Outcome outcome = ranks[r].join();
    if (!outcome.ended_well()) wrong.push_back(fmt::format("rank {} {}", r, outcome.how()));
    if (!outcome.said.empty()) wrong.push_back(outcome.said);
  }
  return wrong;
}

}  // namespace

const FabricUnderTest kShm{
    "shm",
    {protocol::Protocol::kSimple, protocol::Protocol::kLL, protocol::Protocol::kLL64, protocol::Protocol::kLL128},
    capabilities,
    run};

}  // namespace weft::conformance
