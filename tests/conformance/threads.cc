#include "net/threads/threads.h"

#include <thread>

#include "tests/conformance/job.h"

namespace weft::conformance {
namespace {

constexpr net::memory::WaitPolicy::Limits kLimits{.timeout =
                                                      std::chrono::seconds(60)};  // generous: machines may be busy

fabric::Capabilities capabilities() { return net::threads::open(1, kLimits).value()[0]->endpoint.capabilities(); }

std::vector<std::string> run(const Job& job) {
  auto worlds = net::threads::open(job.ranks(), kLimits).value();
  std::vector<std::string> wrong(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < worlds.size(); ++r)
    threads.emplace_back([&, r] {
      exec::WorldExecutor<net::threads::World> executor(std::move(worlds[r]));
      wrong[r] = run_rank(executor, job);
    });
  for (std::thread& t : threads) t.join();
  std::erase(wrong, "");
  return wrong;
}

}  // namespace

const FabricUnderTest kThreads{
    "threads",
    {protocol::Protocol::kSimple, protocol::Protocol::kLL, protocol::Protocol::kLL64, protocol::Protocol::kLL128},
    capabilities,
    run};

}  // namespace weft::conformance
