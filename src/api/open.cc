#include "api/open.h"

#include <algorithm>
#include <set>

#include "api/calibrate/cache.h"
#include "api/chooser.h"
#include "api/groups.h"
#include "api/log_lines.h"
#include "api/share_rates.h"
#include "api/this_machine.h"
#include "base/forks.h"
#include "base/text.h"
#include "base/text_file.h"
#include "exec/kernels/fold.h"
#include "net/shm/share.h"

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

using Machine = std::shared_ptr<const cost::MachineView>;

// The session over a world, with its record and a way to make others. `machine`: by the rates that this rank started
// with; afterwards by those that all ranks choose by, which `look` sees it with.
template <class World, class Look>
Result<std::shared_ptr<session::Session>> session_over(std::unique_ptr<World> world,
                                                       std::shared_ptr<const Origin> origin, const Place& place,
                                                       const std::string& transport, Rank ranks_per_node,
                                                       Machine& machine, const Look& look) {
  WEFT_TRY(auto recorder, recorder_of(*origin, place, transport));
  World& kept = *world;
  auto executor = std::make_unique<exec::WorldExecutor<World>>(std::move(world));
  std::optional<Error> left;
  if (place.meets) {
    auto rates = share_rates(*executor, origin->rates);
    // Only a rank that is connected can leave, and it may do so before its last message has come here. This rank is
    // connected then, too: its calls say who has left, and shrink() finds it among the others.
    if (!rates && rates.error().code != Code::kPeerLeft) return tl::make_unexpected(rates.error());
    if (!rates) left = rates.error();
    if (rates && *rates != origin->rates) {
      auto agreed = std::make_shared<Origin>(*origin);
      agreed->rates = std::move(*rates);
      WEFT_TRY(machine, look(*agreed));
      origin = std::move(agreed);
    }
  }
  const session::Streams streams{.results_from = machine->caches().shared,
                                 .for_peers = machine->costs().streams(machine->sharing(executor->ranks())),
                                 .tried = machine->sharing(executor->ranks()) == 1};
  std::optional<SharedChoices> shared;
  if constexpr (std::is_same_v<World, net::shm::World>)
    shared = {kept.endpoint.segment(), calibrate::to_text(origin->rates)};
  auto session =
      make_owned<session::Session>(std::move(executor), ranks_per_node,
                                   chooser_of(machine, origin->settings, origin->log, std::move(shared)), streams);
  session->log_to(origin->log);
  if (left) session->begin_broken(std::move(*left));
  origin->log->info(LogPart::kInit, "communicator {}: rank {} of {} over {}", place.group, place.rank, place.ranks,
                    transport);
  if (recorder) session->record(std::move(recorder), origin->settings.record_folder);
  if constexpr (requires { groups_of(origin, kept, machine); })
    session->regroup_by(groups_of(std::move(origin), kept, machine));
  else
    session->regroup_by(groups_of(std::move(origin), kept));
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

// The number of ranks on a rank's machine, itself included.
Rank ranks_beside(const net::bootstrap::Meeting& meeting, Rank rank) {
  return static_cast<Rank>(std::count_if(meeting.ranks.begin(), meeting.ranks.end(), [&](const auto& r) {
    return r.node == meeting.ranks[static_cast<std::size_t>(rank)].node;
  }));
}

Carrier carrier_across(const Origin& origin) { return origin.ucx != nullptr ? Carrier::kUcxAcross : Carrier::kTcp; }

// What ranks choose by who only send messages. UCX is faster within a machine than across.
Result<cost::MachineView> messages_between(const Origin& origin, bool one_machine, Rank ranks, Rank ranks_per_node) {
  constexpr Carrier kWithin = Carrier::kUcx;
  if (origin.ucx == nullptr) return this_network(origin.rates, Carrier::kTcp, ranks_per_node);
  if (one_machine) return this_network(origin.rates, kWithin, ranks_per_node);
  return these_machines(origin.rates, Carrier::kUcxAcross, ranks / ranks_per_node, ranks_per_node, &kWithin);
}

net::tcp::ZeroCopy zero_copy_of(const env::Settings& settings) {
  using net::tcp::ZeroCopy;
  if (settings.zero_copy.empty()) return ZeroCopy::kByAdapter;
  return settings.zero_copy == "on" ? ZeroCopy::kAlways : ZeroCopy::kNever;
}

// Opens the transport between machines, or a branch of it.
Result<std::unique_ptr<net::messages::World>> open_across(const Origin& origin, net::bootstrap::Meeting meeting,
                                                          Rank rank, net::messages::WaitPolicy::Limits limits,
                                                          Branch branch) {
  if (branch) {
    const auto can = origin.ucx != nullptr ? net::ucx::capabilities() : net::tcp::capabilities();
    return std::make_unique<net::messages::World>(can, std::move(meeting), rank, limits, std::move(*branch));
  }
  if (origin.ucx != nullptr && meeting.sealing().on())
    return bad_input("WEFT_SECURE={}: only tcp protects what it carries, and this is {}; use transport tcp or shm+tcp",
                     word(meeting.sealing().protection), origin.transport);
  if (origin.ucx != nullptr) return net::ucx::open(origin.ucx, std::move(meeting), rank, limits);
  const net::tcp::Options options{.sockets = origin.settings.sockets,
                                  .zero_copy = zero_copy_of(origin.settings),
                                  .fold_of = exec::fold_of_reduction};
  return net::tcp::open(std::move(meeting), rank, options, limits);
}

// Ranks of one machine share memory by every transport but tcp and ucx.
std::string way_of(const net::bootstrap::Record& rank, bool one_machine) {
  const std::string transport(env::transports()[rank.transport % env::transports().size()]);
  if (sends_only(transport)) return transport;
  if (one_machine) return "shm";
  return transport.empty() ? "shm+tcp" : transport;
}

// Ranks that wait for each other in different places would wait until their timeout. Errors (bad input): names two.
Status check_one_transport(const net::bootstrap::Meeting& meeting) {
  const bool here = meeting.one_machine();
  const std::string first = way_of(meeting.ranks.front(), here);
  for (const net::bootstrap::Record& r : meeting.ranks)
    if (const std::string way = way_of(r, here); way != first)
      return bad_input("the ranks disagree on WEFT_TRANSPORT: rank 0 has {}, rank {} ({}) has {}", first, r.rank,
                       r.text(), way);
  return {};
}

// The wait limits of shared memory, for transports that carry messages.
net::messages::WaitPolicy::Limits message_limits_of(const env::Settings& settings, Rank ranks,
                                                    const cost::MachineView& machine) {
  net::messages::WaitPolicy::Limits limits{.timeout = std::chrono::milliseconds(settings.timeout_ms)};
  if (ranks > machine.endpoints()) limits.spins = 1;
  return limits;
}

// The rings of shared memory's messages. Ranks that share cores take turns, and what one has stored in its turn is best
// still in the core's cache in the next one's.
std::size_t ring_of(const cost::MachineView& machine, Rank ranks) {
  if (ranks > machine.endpoints()) return net::memory::kSmallRingBytes;
  return net::shm::ring_for(machine.caches().own / machine.endpoints(), machine.caches().shared, ranks);
}

}  // namespace

net::memory::WaitPolicy::Limits limits_of(const env::Settings& settings, Rank ranks, const cost::MachineView& machine) {
  net::memory::WaitPolicy::Limits limits;
  limits.timeout = std::chrono::milliseconds(settings.timeout_ms);
  // A rank that spins on a core that a peer needs only delays itself.
  if (ranks > machine.endpoints()) limits.spins = 1;
  return limits;
}

Result<calibrate::Rates> rates_of(const env::Settings& settings, bool follows) {
  constexpr std::int64_t kLongEnough = 10000;  // ms that others wait, for a measurement on a busy machine
  if (settings.rates == "none") return calibrate::typical();
  if (settings.rates.starts_with("{")) return calibrate::from_text(settings.rates);
  if (!settings.rates.empty()) {
    WEFT_TRY(const std::string text, read_text_file(settings.rates));
    return calibrate::from_text(text);
  }
  if (follows) return calibrate::typical();
  const calibrate::Cache cache = cache_of(settings);
  if (across(settings.transport) == "ucx")  // which only `weft run` and `weft calibrate` can measure
    if (const auto known = cache.find(true)) return *known;
  if (!cache.usable() || settings.timeout_ms < kLongEnough) return cache.find(false).value_or(calibrate::typical());
  return cache.find_or(false, [] { return calibrate::measure_unbound(); });
}

calibrate::Cache cache_of(const env::Settings& settings) {
  std::function<void(const std::string&)> say;
  if (settings.log.level >= LogLevel::kWarn)
    say = [](const std::string& line) { fmt::print(stderr, "weft: {}\n", line); };
  return calibrate::Cache(settings.cache_folder, std::move(say));
}

Result<std::shared_ptr<const cost::MachineView>> shared(Result<cost::MachineView> machine) {
  if (!machine) return tl::make_unexpected(machine.error());
  return std::make_shared<const cost::MachineView>(std::move(*machine));
}

Result<Opened> open_shm(std::shared_ptr<const Origin> origin, const Place& place, const std::string& name,
                        net::shm::LostRank lost) {
  WEFT_TRY(const auto machine, this_machine(origin->rates));
  WEFT_TRY(auto world, net::shm::attach({.id = name,
                                         .rank = place.rank,
                                         .ranks = place.ranks,
                                         .heap_bytes = origin->settings.heap_bytes,
                                         .ring_bytes = ring_of(*machine, place.ranks),
                                         .limits = limits_of(origin->settings, place.ranks, *machine),
                                         .lost = std::move(lost)}));
  const std::size_t ring = world->share->mapping().ring_bytes();
  const auto per_connection = static_cast<Bytes>(sizeof(net::memory::Connection) - net::memory::kRingBytes + ring);
  if (place.ranks > 1)
    origin->log->info(LogPart::kInit,
                      "shared memory: each of {} peers takes at most {}, some {} of all ranks together are touched",
                      place.ranks - 1, format_bytes(net::memory::kConnections * per_connection),
                      format_bytes(static_cast<Bytes>(net::shm::bytes_touched(place.ranks, ring) >> 20 << 20)));
  return open_in_segment(std::move(origin), place, std::move(world), machine);
}

Result<Opened> open_in_segment(std::shared_ptr<const Origin> origin, const Place& place,
                               std::unique_ptr<net::shm::World> world,
                               std::shared_ptr<const cost::MachineView> machine) {
  net::shm::World* const shm = world.get();
  const auto look = [](const Origin& agreed) { return this_machine(agreed.rates); };
  WEFT_TRY(auto session, session_over(std::move(world), std::move(origin), place, "shm", place.ranks, machine, look));
  return Opened{std::move(session), "shm", std::move(machine), shm};
}

Result<Opened> open_messages(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                             Branch branch) {
  const Rank ranks_per_node = per_machine(meeting.ranks);
  const bool here = meeting.one_machine();
  const auto look = [ranks_per_node, here, ranks = place.ranks](const Origin& agreed) {
    return shared(messages_between(agreed, here, ranks, ranks_per_node));
  };
  WEFT_TRY(Machine machine, look(*origin));
  const auto limits = message_limits_of(origin->settings, ranks_beside(meeting, place.rank), *machine);
  WEFT_TRY(auto world, open_across(*origin, std::move(meeting), place.rank, limits, std::move(branch)));
  net::messages::World* const messages = world.get();
  const std::string transport = across(origin->transport);
  WEFT_TRY(auto session,
           session_over(std::move(world), std::move(origin), place, transport, ranks_per_node, machine, look));
  return Opened{.session = std::move(session), .transport = transport, .machine = machine, .messages = messages};
}

Result<Opened> open_mixed(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                          net::shm::LostRank lost, Branch branch) {
  const Rank ranks_per_node = per_machine(meeting.ranks);
  const auto look = [ranks_per_node, machines = place.ranks / ranks_per_node](const Origin& agreed) {
    return shared(these_machines(agreed.rates, carrier_across(agreed), machines, ranks_per_node));
  };
  WEFT_TRY(Machine machine, look(*origin));
  const Rank here = ranks_beside(meeting, place.rank);
  WEFT_TRY(const auto cores, this_machine(origin->rates));
  auto limits = message_limits_of(origin->settings, here, *cores);
  // Machines may be containers that share their cores, which none of them can see.
  constexpr int kBriefly = 100;
  limits.spins = std::min(limits.spins, kBriefly);
  const char* const transport = origin->ucx != nullptr ? "shm+ucx" : "shm+tcp";
  const auto open_far = [&](net::bootstrap::Meeting met, Rank rank) {
    return open_across(*origin, std::move(met), rank, limits, std::move(branch));
  };
  WEFT_TRY(auto world, net::mixed::open(std::move(meeting), place.rank,
                                        {.name = transport,
                                         .across = open_far,
                                         .limits = limits,
                                         .heap_bytes = origin->settings.heap_bytes,
                                         .ring_bytes = ring_of(*cores, here),
                                         .lost = std::move(lost)}));
  net::mixed::World* const mixed = world.get();
  WEFT_TRY(auto session,
           session_over(std::move(world), std::move(origin), place, transport, ranks_per_node, machine, look));
  return Opened{.session = std::move(session), .transport = transport, .machine = machine, .mixed = mixed};
}

Result<Opened> open_machines(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                             net::shm::LostRank lost, Branch branch) {
  std::set<net::link::Digest> machines;
  for (const auto& rank : meeting.ranks) machines.insert(rank.node);
  if (sends_only(origin->transport) || machines.size() == meeting.ranks.size())
    return open_messages(std::move(origin), place, std::move(meeting), std::move(branch));
  return open_mixed(std::move(origin), place, std::move(meeting), std::move(lost), std::move(branch));
}

Result<Opened> open_met(const env::Settings& settings, const calibrate::Rates& rates, const std::string& transport,
                        Rank rank, net::bootstrap::Meeting meeting, std::shared_ptr<const Log> log) {
  WEFT_CHECK(check_one_transport(meeting));
  if (transport == "shm" && !meeting.one_machine())
    return bad_input("transport shm: the ranks are on several machines");
  const std::string name = meeting.name;
  Origin own{settings, rates, name, transport};
  if (log == nullptr) {
    WEFT_TRY(log, open_log(settings, rank));
  }
  own.log = std::move(log);
  const bool sends = sends_only(transport) || !meeting.one_machine();
  if (sends && across(transport) == "ucx") {
    WEFT_TRY(own.ucx, net::ucx::open_context());
  }
  const auto origin = std::make_shared<Origin>(std::move(own));
  const Place place{"world", rank, static_cast<Rank>(meeting.ranks.size()), true};
  log_meeting(*origin->log, settings, meeting, rank, within(transport),
              sends_only(transport) ? transport : across(transport));
  meeting.log = origin->log;
  if (sends) return open_machines(origin, place, std::move(meeting));
  return open_shm(origin, place, name);
}

Result<std::shared_ptr<session::Session>> open_thread(std::shared_ptr<const Origin> origin, const Place& place,
                                                      std::unique_ptr<net::threads::World> world,
                                                      std::shared_ptr<const cost::MachineView> machine) {
  const auto look = [](const Origin& agreed) { return this_machine(agreed.rates); };
  return session_over(std::move(world), std::move(origin), place, "threads", place.ranks, machine, look);
}

}  // namespace weft::api
