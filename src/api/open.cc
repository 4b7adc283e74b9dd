#include "api/open.h"

#include <algorithm>

#include "api/chooser.h"
#include "api/groups.h"
#include "api/this_machine.h"

namespace weft::api {
namespace {

// The session over a world, with its record and a way to make others. `more`: what groups_of asks for besides.
template <class World, class... More>
std::shared_ptr<session::Session> session_over(std::unique_ptr<World> world, std::shared_ptr<const Origin> origin,
                                               const Place& place, const std::string& transport, Rank ranks_per_node,
                                               std::shared_ptr<const cost::MachineView> machine, More... more) {
  const World& kept = *world;
  const Bytes cache = machine->caches().shared;
  auto session =
      std::make_shared<session::Session>(std::make_unique<exec::WorldExecutor<World>>(std::move(world)), ranks_per_node,
                                         chooser_of(std::move(machine), origin->settings), cache);
  if (origin->settings.record_entries > 0)
    session->record(recorder::Recorder::open({.job = origin->job,
                                              .group = place.group,
                                              .transport = transport,
                                              .rank = place.rank,
                                              .ranks = place.ranks},
                                             origin->settings.record_entries),
                    origin->settings.record_folder);
  session->regroup_by(groups_of(std::move(origin), kept, std::move(more)...));
  return session;
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

net::tcp::Options options_of(const env::Settings& settings) {
  const auto zero_copy = settings.zero_copy == "on"    ? net::tcp::ZeroCopy::kOn
                         : settings.zero_copy == "off" ? net::tcp::ZeroCopy::kOff
                                                       : net::tcp::ZeroCopy::kAuto;
  return {
      .sockets = settings.sockets, .zero_copy = zero_copy, .timeout = std::chrono::milliseconds(settings.timeout_ms)};
}

}  // namespace

net::memory::Patience::Limits limits_of(const env::Settings& settings, Rank ranks, const cost::MachineView& machine) {
  net::memory::Patience::Limits limits;
  limits.timeout = std::chrono::milliseconds(settings.timeout_ms);
  // A rank that spins on a core that a peer needs only delays itself.
  if (ranks > machine.endpoints()) limits.spins = 1;
  return limits;
}

Result<calibrate::Rates> rates_of(const env::Settings& settings) {
  if (settings.rates.empty()) return calibrate::typical();
  return calibrate::from_text(settings.rates);
}

Result<std::shared_ptr<cost::MachineView>> shared(Result<cost::MachineView> machine) {
  if (!machine) return tl::make_unexpected(machine.error());
  return std::make_shared<cost::MachineView>(std::move(*machine));
}

Result<Opened> open_shm(std::shared_ptr<const Origin> origin, const Place& place, const std::string& name,
                        std::function<bool(Rank)> has_ended) {
  WEFT_TRY(auto machine, shared(this_machine(origin->rates)));
  WEFT_TRY(auto world, net::shm::attach({.id = name,
                                         .rank = place.rank,
                                         .ranks = place.ranks,
                                         .heap_bytes = origin->settings.heap_bytes,
                                         .limits = limits_of(origin->settings, place.ranks, *machine),
                                         .has_ended = std::move(has_ended)}));
  net::shm::World* const shm = world.get();
  return Opened{session_over(std::move(world), std::move(origin), place, "shm", place.ranks, machine), "shm", machine,
                shm};
}

Result<Opened> open_tcp(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting) {
  const Rank ranks_per_node = per_machine(meeting.ranks);
  const auto here = std::count_if(meeting.ranks.begin(), meeting.ranks.end(), [&](const auto& r) {
    return r.node == meeting.ranks[static_cast<std::size_t>(place.rank)].node;
  });
  WEFT_TRY(auto machine, shared(this_network(origin->rates, std::max<Rank>(ranks_per_node, 1))));
  const net::tcp::Options options = options_of(origin->settings);
  net::tcp::Patience::Limits limits{.timeout = options.timeout};
  if (here > machine->endpoints()) limits.spins = 1;  // as over shared memory
  auto world = std::make_unique<net::tcp::World>(std::move(meeting), place.rank, options, limits);
  net::tcp::World* const tcp = world.get();
  return Opened{session_over(std::move(world), std::move(origin), place, "tcp", ranks_per_node, machine), "tcp",
                machine, nullptr, tcp};
}

Result<Opened> open_met(const env::Settings& settings, const calibrate::Rates& rates, const std::string& transport,
                        Rank rank, net::bootstrap::Meeting meeting) {
  if (transport == "shm" && !meeting.one_machine())
    return bad_input("transport shm: the ranks are on several machines");
  const std::string name = meeting.name;
  const auto origin = std::make_shared<Origin>(Origin{settings, rates, name, transport});
  const Place place{"world", rank, static_cast<Rank>(meeting.ranks.size())};
  if (transport == "tcp" || !meeting.one_machine()) return open_tcp(origin, place, std::move(meeting));
  return open_shm(origin, place, name);
}

std::shared_ptr<session::Session> open_thread(std::shared_ptr<const Origin> origin, const Place& place,
                                              std::unique_ptr<net::threads::World> world,
                                              std::shared_ptr<const cost::MachineView> machine) {
  return session_over(std::move(world), std::move(origin), place, "threads", place.ranks, machine, machine);
}

}  // namespace weft::api
