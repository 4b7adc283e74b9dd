#include "api/connect.h"

#include <algorithm>
#include <mutex>

#include "api/this_machine.h"
#include "collectives/registry.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"
#include "net/threads/threads.h"
#include "schedule/element.h"
#include "session/session.h"

namespace weft::api {
namespace {

bool order_matters(const Request& r) {
  return schedule::reduces(r.collective) && schedule::order_matters(r.type, r.op);
}

Result<std::shared_ptr<cost::MachineView>> shared(Result<cost::MachineView> machine) {
  if (!machine) return tl::make_unexpected(machine.error());
  return std::make_shared<cost::MachineView>(std::move(*machine));
}

Result<Joined> join_shm(const env::Settings& settings, const std::string& name, Rank rank, Rank ranks,
                        const calibrate::Rates& rates) {
  WEFT_TRY(auto machine, shared(this_machine(rates)));
  const net::memory::Patience::Limits limits = limits_of(settings, ranks, *machine);
  WEFT_TRY(auto world,
           net::shm::attach(
               {.id = name, .rank = rank, .ranks = ranks, .heap_bytes = settings.heap_bytes, .limits = limits}));
  net::shm::World* const shm = world.get();
  const session::Chooser chooser = chooser_of(machine, settings);
  auto executor = std::make_unique<exec::WorldExecutor<net::shm::World>>(std::move(world));
  return Joined{.comm = Communicator(std::make_shared<session::Session>(std::move(executor), ranks, chooser)),
                .transport = "shm",
                .machine = machine,
                .chooser = chooser,
                .limits = limits,
                .shm = shm};
}

// Consecutive ranks per machine; 1 if they are spread otherwise.
Rank per_machine(const std::vector<net::bootstrap::Record>& ranks) {
  std::size_t first = 0;
  while (first < ranks.size() && ranks[first].node == ranks[0].node) ++first;
  if (ranks.size() % first != 0) return 1;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].node != ranks[r / first * first].node) return 1;
  return static_cast<Rank>(first);
}

Result<Joined> join_tcp(const env::Settings& settings, net::bootstrap::Meeting meeting, Rank rank,
                        const calibrate::Rates& rates) {
  const Rank ranks_per_node = per_machine(meeting.ranks);
  const auto here = std::count_if(meeting.ranks.begin(), meeting.ranks.end(), [&](const auto& r) {
    return r.node == meeting.ranks[static_cast<std::size_t>(rank)].node;
  });
  WEFT_TRY(auto machine, shared(this_network(rates, std::max<Rank>(ranks_per_node, 1))));
  const std::chrono::milliseconds timeout(settings.timeout_ms);
  net::tcp::Patience::Limits limits{.timeout = timeout};
  if (here > machine->endpoints()) limits.spins = 1;  // as over shared memory
  const auto zero_copy = settings.zero_copy == "on"    ? net::tcp::ZeroCopy::kOn
                         : settings.zero_copy == "off" ? net::tcp::ZeroCopy::kOff
                                                       : net::tcp::ZeroCopy::kAuto;
  auto world = std::make_unique<net::tcp::World>(
      std::move(meeting), rank,
      net::tcp::Options{.sockets = settings.sockets, .zero_copy = zero_copy, .timeout = timeout}, limits);
  auto executor = std::make_unique<exec::WorldExecutor<net::tcp::World>>(std::move(world));
  const session::Chooser chooser = chooser_of(machine, settings);
  return Joined{.comm = Communicator(std::make_shared<session::Session>(std::move(executor), ranks_per_node, chooser)),
                .transport = "tcp",
                .machine = machine,
                .chooser = chooser};
}

}  // namespace

net::memory::Patience::Limits limits_of(const env::Settings& settings, Rank ranks, const cost::MachineView& machine) {
  net::memory::Patience::Limits limits;
  limits.timeout = std::chrono::milliseconds(settings.timeout_ms);
  // A rank that spins on a core that a peer needs only delays itself.
  if (ranks > machine.endpoints()) limits.spins = 1;
  return limits;
}

// What the environment forces holds for the calls that it can serve; a call's own wishes come first.
session::Chooser chooser_of(std::shared_ptr<const cost::MachineView> machine, const env::Settings& settings) {
  // Threads that share the machine view take turns: its routes cache.
  return [machine = std::move(machine), lock = std::make_shared<std::mutex>(), algorithm = settings.algorithm,
          protocol = settings.protocol, channels = static_cast<int>(settings.channels),
          reproducible = settings.reproducible](const schedule::Task& task, const Request& request,
                                                const protocol::Capabilities& can,
                                                bool registered) -> Result<schedule::Plan> {
    const std::lock_guard guard(*lock);
    tune::Question own = question_of(task, request, can, registered);
    own.in_order = (reproducible || request.reproducible) && order_matters(request);
    tune::Question forced = own;
    if (own.algorithm.empty()) forced.algorithm = algorithm;
    if (own.algorithm.empty() && own.protocol.empty()) forced.protocol = protocol;
    if (own.channels == 0) forced.channels = channels;
    if (const auto chosen = tune::choose(*machine, forced)) return chosen->plan;
    WEFT_TRY(const auto chosen, tune::choose(*machine, own));
    return chosen.plan;
  };
}

Result<calibrate::Rates> rates_of(const env::Settings& settings) {
  if (settings.rates.empty()) return calibrate::typical();
  return calibrate::from_text(settings.rates);
}

Status check_forced(const env::Settings& settings) {
  if (!settings.protocol.empty())
    if (const auto known = protocol::parse_protocol(settings.protocol); !known)
      return bad_input("WEFT_PROTO: {}", known.error().message);
  if (settings.algorithm.empty()) return {};
  for (const schedule::Algorithm& a : collectives::algorithms())
    if (a.name == settings.algorithm) return {};
  return bad_input("WEFT_ALGO '{}' is not an algorithm", settings.algorithm);
}

protocol::Capabilities capabilities_of(const std::string& transport) {
  if (transport == "tcp") return net::tcp::capabilities();
  return net::memory::capabilities(transport);
}

tune::Question question_of(const schedule::Task& task, const Request& request, const protocol::Capabilities& can,
                           bool registered) {
  return {.task = task,
          .can = can,
          .registered = registered,
          .in_order = request.reproducible && order_matters(request),
          .algorithm = request.algorithm,
          .protocol = request.protocol,
          .channels = request.channels};
}

Result<Joined> join(const env::Settings& settings, const net::bootstrap::Job& job, const std::string& transport,
                    const calibrate::Rates& rates) {
  WEFT_CHECK(check_forced(settings));
  if (transport != "tcp" && !job.local_name.empty())
    return join_shm(settings, job.local_name, job.rank, job.ranks, rates);
  WEFT_TRY(auto meeting, net::bootstrap::meet(job, settings));
  if (transport == "shm" && !meeting.one_machine())
    return bad_input("transport shm: the ranks are on several machines");
  if (transport == "tcp" || !meeting.one_machine()) return join_tcp(settings, std::move(meeting), job.rank, rates);
  return join_shm(settings, meeting.name, job.rank, job.ranks, rates);
}

Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings,
                                               std::shared_ptr<const cost::MachineView> machine) {
  return open_threads(ranks, settings, *machine, chooser_of(machine, settings));
}

Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings,
                                               const cost::MachineView& machine, const session::Chooser& chooser) {
  WEFT_CHECK(check_forced(settings));
  WEFT_TRY(auto worlds, net::threads::open(ranks, limits_of(settings, ranks, machine)));
  const Bytes cache = machine.caches().shared;
  std::vector<Communicator> all;
  for (auto& world : worlds) {
    auto executor = std::make_unique<exec::WorldExecutor<net::threads::World>>(std::move(world));
    all.emplace_back(std::make_shared<session::Session>(std::move(executor), ranks, chooser, cache));
  }
  return all;
}

}  // namespace weft::api

namespace weft {

Result<Communicator> Communicator::from_environment() {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(const calibrate::Rates rates, api::rates_of(settings));
  WEFT_TRY(const auto job, net::bootstrap::job_of(settings));
  if (!job) {  // one rank that needs no name
    WEFT_TRY(auto machine, api::shared(api::this_machine(rates)));
    WEFT_TRY(auto alone, api::open_threads(1, settings, std::move(machine)));
    return std::move(alone.front());
  }
  WEFT_TRY(auto joined, api::join(settings, *job, settings.transport, rates));
  return std::move(joined.comm);
}

Result<std::vector<Communicator>> Communicator::threads(Rank ranks) {
  if (ranks < 1) return bad_input("{} ranks", ranks);
  WEFT_TRY(env::Settings settings, env::read());
  WEFT_TRY(const calibrate::Rates rates, api::rates_of(settings));
  WEFT_TRY(auto machine, api::shared(api::this_machine(rates)));
  return api::open_threads(ranks, settings, std::move(machine));
}

}  // namespace weft
