#include "api/connect.h"

#include <mutex>

#include "api/this_machine.h"
#include "collectives/registry.h"
#include "net/shm/shm.h"
#include "net/threads/threads.h"
#include "session/session.h"

namespace weft::api {
namespace {

net::memory::Patience::Limits limits_of(const env::Settings& settings, Rank ranks, const cost::MachineView& machine) {
  net::memory::Patience::Limits limits;
  limits.timeout = std::chrono::milliseconds(settings.timeout_ms);
  // A rank that spins on a core that a peer needs only delays itself.
  if (ranks > machine.endpoints()) limits.spins = 1;
  return limits;
}

// Integers wrap and extremes are exact, so that any order gives the same bits.
bool order_matters(const Request& r) {
  return schedule::reduces(r.collective) && is_float(r.type) && r.op != ReduceOp::kMin && r.op != ReduceOp::kMax;
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

Result<std::shared_ptr<const cost::MachineView>> machine_of(const env::Settings& settings) {
  calibrate::Rates rates = calibrate::typical();
  if (!settings.rates.empty()) {
    WEFT_TRY(rates, calibrate::from_text(settings.rates));
  }
  WEFT_TRY(auto machine, this_machine(rates));
  return std::make_shared<const cost::MachineView>(std::move(machine));
}

}  // namespace

Status check_forced(const env::Settings& settings) {
  if (!settings.protocol.empty())
    if (const auto known = protocol::parse_protocol(settings.protocol); !known)
      return bad_input("WEFT_PROTO: {}", known.error().message);
  if (settings.algorithm.empty()) return {};
  for (const schedule::Algorithm& a : collectives::algorithms())
    if (a.name == settings.algorithm) return {};
  return bad_input("WEFT_ALGO '{}' is not an algorithm", settings.algorithm);
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

Result<Communicator> join(const env::Settings& settings, std::shared_ptr<const cost::MachineView> machine) {
  const Rank ranks = settings.size.value_or(1);
  WEFT_CHECK(check_forced(settings));
  WEFT_TRY(auto world, net::shm::attach({.id = settings.id,
                                         .rank = settings.rank.value_or(0),
                                         .ranks = ranks,
                                         .heap_bytes = settings.heap_bytes,
                                         .limits = limits_of(settings, ranks, *machine)}));
  auto executor = std::make_unique<exec::WorldExecutor<net::shm::World>>(std::move(world));
  return Communicator(
      std::make_shared<session::Session>(std::move(executor), ranks, chooser_of(std::move(machine), settings)));
}

Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings,
                                               std::shared_ptr<const cost::MachineView> machine) {
  WEFT_CHECK(check_forced(settings));
  WEFT_TRY(auto worlds, net::threads::open(ranks, limits_of(settings, ranks, *machine)));
  const Bytes cache = machine->caches().shared;
  const session::Chooser chooser = chooser_of(std::move(machine), settings);
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
  WEFT_TRY(env::Settings settings, env::read());
  WEFT_TRY(auto machine, api::machine_of(settings));
  if (!settings.size) {  // not part of a job: one rank that needs no name
    WEFT_TRY(auto alone, api::open_threads(1, settings, std::move(machine)));
    return std::move(alone.front());
  }
  return api::join(settings, std::move(machine));
}

Result<std::vector<Communicator>> Communicator::threads(Rank ranks) {
  if (ranks < 1) return bad_input("{} ranks", ranks);
  WEFT_TRY(env::Settings settings, env::read());
  WEFT_TRY(auto machine, api::machine_of(settings));
  return api::open_threads(ranks, settings, std::move(machine));
}

}  // namespace weft
