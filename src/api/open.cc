#include "api/open.h"

#include <algorithm>
#include <set>

#include "api/chooser.h"
#include "api/groups.h"
#include "api/this_machine.h"
#include "exec/kernels/fold.h"

namespace weft::api {
namespace {

// Null where nothing is to be recorded. Errors: of the trace's file.
Result<std::unique_ptr<recorder::Recorder>> recorder_of(const Origin& origin, const Place& place,
                                                        const std::string& transport) {
  const env::Settings& s = origin.settings;
  if (s.record_entries == 0 && s.trace.empty()) return nullptr;
  const recorder::Identity identity{
      .job = origin.job, .group = place.group, .transport = transport, .rank = place.rank, .ranks = place.ranks};
  auto recorder = recorder::Recorder::open(identity, *origin.records);
  if (recorder == nullptr || s.trace.empty()) return recorder;
  WEFT_TRY(const unsigned categories, recorder::parse_categories(s.trace_events));
  WEFT_CHECK(recorder->trace({.pattern = s.trace, .categories = categories}, identity));
  return recorder;
}

// The session over a world, with its record and a way to make others. `more`: what groups_of asks for besides.
template <class World, class... More>
Result<std::shared_ptr<session::Session>> session_over(std::unique_ptr<World> world,
                                                       std::shared_ptr<const Origin> origin, const Place& place,
                                                       const std::string& transport, Rank ranks_per_node,
                                                       std::shared_ptr<const cost::MachineView> machine, More... more) {
  WEFT_TRY(auto recorder, recorder_of(*origin, place, transport));
  World& kept = *world;
  const session::Session::Streams streams{.results_from = machine->caches().shared,
                                          .for_peers = machine->costs().streams(machine->sharing(world->ranks()))};
  auto session =
      std::make_shared<session::Session>(std::make_unique<exec::WorldExecutor<World>>(std::move(world)), ranks_per_node,
                                         chooser_of(std::move(machine), origin->settings), streams);
  if (recorder) session->record(std::move(recorder), origin->settings.record_folder);
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

// Who shares a rank's machine, itself included.
Rank ranks_beside(const net::bootstrap::Meeting& meeting, Rank rank) {
  return static_cast<Rank>(std::count_if(meeting.ranks.begin(), meeting.ranks.end(), [&](const auto& r) {
    return r.node == meeting.ranks[static_cast<std::size_t>(rank)].node;
  }));
}

Carrier carrier_across(const Origin& origin) { return origin.ucx != nullptr ? Carrier::kUcxAcross : Carrier::kTcp; }

// What ranks choose by who only send messages. UCX is faster within a machine than across.
Result<cost::MachineView> messages_between(const Origin& origin, const net::bootstrap::Meeting& meeting,
                                           Rank ranks_per_node) {
  constexpr Carrier kWithin = Carrier::kUcx;
  if (origin.ucx == nullptr) return this_network(origin.rates, Carrier::kTcp, ranks_per_node);
  if (meeting.one_machine()) return this_network(origin.rates, kWithin, ranks_per_node);
  const auto machines = static_cast<int>(meeting.ranks.size()) / ranks_per_node;
  return these_machines(origin.rates, Carrier::kUcxAcross, machines, ranks_per_node, &kWithin);
}

net::tcp::ZeroCopy zero_copy_of(const env::Settings& settings) {
  using net::tcp::ZeroCopy;
  if (settings.zero_copy.empty()) return ZeroCopy::kByAdapter;
  return settings.zero_copy == "on" ? ZeroCopy::kAlways : ZeroCopy::kNever;
}

// By what joins machines.
Result<std::unique_ptr<net::messages::World>> open_across(const Origin& origin, net::bootstrap::Meeting meeting,
                                                          Rank rank, net::messages::WaitPolicy::Limits limits) {
  if (origin.ucx != nullptr && meeting.sealing().on())
    return bad_input("WEFT_SECURE={}: only tcp protects what it carries, and this is {}; use transport tcp or shm+tcp",
                     word(meeting.sealing().protection), origin.transport);
  if (origin.ucx != nullptr) return net::ucx::open(origin.ucx, std::move(meeting), rank, limits);
  const net::tcp::Options options{.sockets = origin.settings.sockets,
                                  .zero_copy = zero_copy_of(origin.settings),
                                  .fold_of = exec::fold_of_reduction};
  return net::tcp::open(std::move(meeting), rank, options, limits);
}

// As over shared memory.
net::messages::WaitPolicy::Limits message_limits_of(const env::Settings& settings, Rank ranks,
                                                    const cost::MachineView& machine) {
  net::messages::WaitPolicy::Limits limits{.timeout = std::chrono::milliseconds(settings.timeout_ms)};
  if (ranks > machine.endpoints()) limits.spins = 1;
  return limits;
}

}  // namespace

net::memory::WaitPolicy::Limits limits_of(const env::Settings& settings, Rank ranks, const cost::MachineView& machine) {
  net::memory::WaitPolicy::Limits limits;
  limits.timeout = std::chrono::milliseconds(settings.timeout_ms);
  // A rank that spins on a core that a peer needs only delays itself.
  if (ranks > machine.endpoints()) limits.spins = 1;
  return limits;
}

Result<calibrate::Rates> rates_of(const env::Settings& settings) {
  if (settings.rates.empty()) return calibrate::typical();
  return calibrate::from_text(settings.rates);
}

Result<std::shared_ptr<const cost::MachineView>> shared(Result<cost::MachineView> machine) {
  if (!machine) return tl::make_unexpected(machine.error());
  return std::make_shared<const cost::MachineView>(std::move(*machine));
}

Result<Opened> open_shm(std::shared_ptr<const Origin> origin, const Place& place, const std::string& name,
                        std::function<bool(Rank)> has_ended) {
  WEFT_TRY(const auto machine, this_machine(origin->rates));
  WEFT_TRY(auto world, net::shm::attach({.id = name,
                                         .rank = place.rank,
                                         .ranks = place.ranks,
                                         .heap_bytes = origin->settings.heap_bytes,
                                         .limits = limits_of(origin->settings, place.ranks, *machine),
                                         .has_ended = std::move(has_ended)}));
  return open_in_segment(std::move(origin), place, std::move(world), machine);
}

Result<Opened> open_in_segment(std::shared_ptr<const Origin> origin, const Place& place,
                               std::unique_ptr<net::shm::World> world,
                               std::shared_ptr<const cost::MachineView> machine) {
  net::shm::World* const shm = world.get();
  WEFT_TRY(auto session,
           session_over(std::move(world), std::move(origin), place, "shm", place.ranks, machine, machine));
  return Opened{std::move(session), "shm", std::move(machine), shm};
}

Result<Opened> open_messages(std::shared_ptr<const Origin> origin, const Place& place,
                             net::bootstrap::Meeting meeting) {
  const Rank ranks_per_node = per_machine(meeting.ranks);
  WEFT_TRY(auto machine, shared(messages_between(*origin, meeting, ranks_per_node)));
  const auto limits = message_limits_of(origin->settings, ranks_beside(meeting, place.rank), *machine);
  WEFT_TRY(auto world, open_across(*origin, std::move(meeting), place.rank, limits));
  net::messages::World* const messages = world.get();
  const std::string transport = across(origin->transport);
  WEFT_TRY(auto session, session_over(std::move(world), std::move(origin), place, transport, ranks_per_node, machine));
  return Opened{.session = std::move(session), .transport = transport, .machine = machine, .messages = messages};
}

Result<Opened> open_mixed(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                          std::function<bool(Rank)> has_ended) {
  const Rank ranks_per_node = per_machine(meeting.ranks);
  WEFT_TRY(auto machine, shared(these_machines(origin->rates, carrier_across(*origin), place.ranks / ranks_per_node,
                                               ranks_per_node)));
  const Rank here = ranks_beside(meeting, place.rank);
  WEFT_TRY(const auto cores, this_machine(origin->rates));
  auto limits = message_limits_of(origin->settings, here, *cores);
  // Machines may be containers that share their cores, which none of them can see.
  constexpr int kBriefly = 100;
  limits.spins = std::min(limits.spins, kBriefly);
  const char* const transport = origin->ucx != nullptr ? "shm+ucx" : "shm+tcp";
  const auto open_far = [&](net::bootstrap::Meeting met, Rank rank) {
    return open_across(*origin, std::move(met), rank, limits);
  };
  WEFT_TRY(auto world, net::mixed::open(std::move(meeting), place.rank,
                                        {.name = transport,
                                         .across = open_far,
                                         .limits = limits,
                                         .heap_bytes = origin->settings.heap_bytes,
                                         .has_ended = std::move(has_ended)}));
  net::mixed::World* const mixed = world.get();
  WEFT_TRY(auto session, session_over(std::move(world), std::move(origin), place, transport, ranks_per_node, machine));
  return Opened{.session = std::move(session), .transport = transport, .machine = machine, .mixed = mixed};
}

Result<Opened> open_machines(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                             std::function<bool(Rank)> has_ended) {
  std::set<net::bootstrap::Digest> machines;
  for (const auto& rank : meeting.ranks) machines.insert(rank.node);
  if (sends_only(origin->transport) || machines.size() == meeting.ranks.size())
    return open_messages(std::move(origin), place, std::move(meeting));
  return open_mixed(std::move(origin), place, std::move(meeting), std::move(has_ended));
}

Result<Opened> open_met(const env::Settings& settings, const calibrate::Rates& rates, const std::string& transport,
                        Rank rank, net::bootstrap::Meeting meeting) {
  if (transport == "shm" && !meeting.one_machine())
    return bad_input("transport shm: the ranks are on several machines");
  const std::string name = meeting.name;
  Origin own{settings, rates, name, transport};
  const bool sends = sends_only(transport) || !meeting.one_machine();
  if (sends && across(transport) == "ucx") {
    WEFT_TRY(own.ucx, net::ucx::open_context());
  }
  const auto origin = std::make_shared<Origin>(std::move(own));
  const Place place{"world", rank, static_cast<Rank>(meeting.ranks.size())};
  if (sends) return open_machines(origin, place, std::move(meeting));
  return open_shm(origin, place, name);
}

Result<std::shared_ptr<session::Session>> open_thread(std::shared_ptr<const Origin> origin, const Place& place,
                                                      std::unique_ptr<net::threads::World> world,
                                                      std::shared_ptr<const cost::MachineView> machine) {
  return session_over(std::move(world), std::move(origin), place, "threads", place.ranks, machine, machine);
}

}  // namespace weft::api
