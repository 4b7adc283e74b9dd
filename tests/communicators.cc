#include "tests/communicators.h"

#include <algorithm>
#include <thread>

#include "net/shm/shm.h"
#include "net/threads/threads.h"
#include "plan/collectives/registry.h"

namespace weft::tests {

session::Chooser forcing_chooser(bool always_staged) {
  return [always_staged](const schedule::Task& task, const Request& request, const protocol::Capabilities& can,
                         bool registered) -> Result<schedule::Plan> {
    const schedule::Algorithm* algorithm = collectives::algorithms_for(task.collective).front();
    if (!request.algorithm.empty()) {
      WEFT_TRY(algorithm, collectives::find_algorithm(task.collective, request.algorithm));
    }
    auto protocol = algorithm->needs.messages ? protocol::Protocol::kSimple : protocol::Protocol::kDirect;
    if (!request.protocol.empty()) {
      WEFT_TRY(protocol, protocol::parse_protocol(request.protocol));
    }
    return schedule::make_plan(task, *algorithm, protocol, std::max(request.channels, 1), can,
                               registered && !always_staged);
  };
}

net::memory::WaitPolicy::Limits patient(Rank ranks) {
  const auto cores = static_cast<Rank>(std::thread::hardware_concurrency());
  return {.spins = ranks > cores ? 20 : 2000, .timeout = std::chrono::seconds(60)};
}

std::vector<Communicator> thread_communicators(Rank ranks, net::memory::WaitPolicy::Limits limits,
                                               const session::Chooser& chooser) {
  std::vector<Communicator> all;
  auto worlds = net::threads::open(ranks, limits).value();
  for (auto& world : worlds)
    all.emplace_back(std::make_shared<session::Session>(
        std::make_unique<exec::WorldExecutor<net::threads::World>>(std::move(world)), ranks, chooser));
  return all;
}

Result<Communicator> shm_communicator(const std::string& id, Rank rank, Rank ranks, std::chrono::milliseconds timeout) {
  auto limits = patient(ranks);
  limits.timeout = timeout;
  WEFT_TRY(auto world,
           net::shm::attach({.id = id, .rank = rank, .ranks = ranks, .heap_bytes = Bytes{1} << 24, .limits = limits}));
  return Communicator(std::make_shared<session::Session>(
      std::make_unique<exec::WorldExecutor<net::shm::World>>(std::move(world)), ranks, forcing_chooser()));
}

void on_threads(std::vector<Communicator> ranks, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (Communicator& rank : ranks) threads.emplace_back([&body, own = std::move(rank)]() mutable { body(own); });
  for (std::thread& t : threads) t.join();
}

}  // namespace weft::tests
