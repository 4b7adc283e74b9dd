#include "api/chooser.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>

#include "api/log_lines.h"
#include "base/nccl_names.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/element.h"
#include "plan/schedule/exchange/written.h"

namespace weft::api {
namespace {

bool order_matters(const Request& r) {
  return schedule::reduces(r.collective) && schedule::order_matters(r.type, r.op);
}

// The key stands for all that the choice depends on, and is equal for equal calls on every rank. FNV-1a.
std::uint64_t key_of(const tune::Question& own, const tune::Question& forced, const std::string& depends_on) {
  const schedule::Task& t = own.task;
  const std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(t.collective), t.ranks,
                  t.ranks_per_node, t.root, t.elements, t.element_bytes, own.can.name, own.registered, own.in_order,
                  own.algorithm, own.protocol, own.channels, forced.algorithm, forced.protocol, forced.channels,
                  t.block_counts().size(), depends_on) +
      fmt::format("{} {} {} {} {}", forced.algorithms.text(), forced.protocols.text(), forced.least_channels,
                  forced.most_channels, forced.most_slice);
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The plan of those few numbers. Errors: it does not exist here, as a segment that somebody has damaged may say.
Result<schedule::Plan> plan_of(const tune::Question& q, const net::memory::ChosenPlan& chosen) {
  WEFT_TRY(const auto* algorithm, collectives::find_algorithm(q.task.collective, chosen.algorithm));
  const auto protocol = std::ranges::find_if(
      protocol::kProtocols, [&](protocol::Protocol p) { return static_cast<std::uint8_t>(p) == chosen.protocol; });
  if (protocol == std::end(protocol::kProtocols) || !schedule::fits(*algorithm, *protocol) || chosen.channels < 1 ||
      chosen.channels * algorithm->connections_of_channel() > q.can.max_strands || chosen.slice_bytes < 0 ||
      chosen.slice_bytes > q.can.slot_data(*protocol))
    return bad_input("no plan of {} is like this", algorithm->name);
  schedule::Plan plan = schedule::make_plan(q.task, *algorithm, *protocol, chosen.channels, q.can, q.registered);
  plan.slice_bytes = chosen.slice_bytes;
  return plan;
}

// NCCL's buffer has eight steps, and messages two of them.
Bytes slice_of_buffer(Bytes buffer) { return buffer / 4; }

// Sizes that only a caller knows, and files, are not shared.
bool may_be_shared(const tune::Question& forced) {
  return forced.task.block_counts().empty() && !schedule::names_file(forced.algorithm);
}

// The plan that another rank is searching, where ranks outnumber processors: else all would search at once. A rank that
// died in its search is waited for no longer than a death may go unnoticed.
std::optional<net::memory::ChosenPlan> wait_for_search(const SharedChoices& shared, std::uint64_t key, Rank ranks,
                                                       Rank processors) {
  const std::chrono::milliseconds longest(std::clamp<Rank>(5 * ranks, 100, 5000));
  const std::chrono::microseconds pause(std::clamp(100 * ranks / std::max<Rank>(processors, 1), 500, 20000));
  const auto until = std::chrono::steady_clock::now() + longest;
  while (net::memory::is_searched(shared.segment, key) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(pause);
  return net::memory::find_choice(shared.segment, key);
}

void share(const SharedChoices& shared, std::uint64_t key, const tune::Question& q, const schedule::Plan& plan) {
  const net::memory::ChosenPlan chosen{plan.algorithm->name, static_cast<std::uint8_t>(plan.protocol), plan.channels,
                                       plan.slice_bytes};
  // Only a plan that those numbers say in full.
  if (const auto again = plan_of(q, chosen); again && *again == plan)
    net::memory::keep_choice(shared.segment, key, chosen);
}

}  // namespace

Status check_forced(const env::Settings& settings) {
  if (!settings.protocol.empty())
    if (const auto known = protocol::parse_protocol(settings.protocol); !known)
      return bad_input("WEFT_PROTO: {}", known.error().message);
  if (settings.algorithm.empty()) return {};
  if (schedule::names_file(settings.algorithm)) {
    const auto written = schedule::written_algorithm(settings.algorithm);
    return written ? Status() : tl::unexpected(written.error());
  }
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

session::Chooser chooser_of(std::shared_ptr<const cost::MachineView> machine, const env::Settings& settings,
                            std::shared_ptr<const Log> log, std::optional<SharedChoices> shared) {
  if (log->writes(LogLevel::kInfo, LogPart::kPlan)) shared.reset();
  return [machine = std::move(machine), log = std::move(log), algorithm = settings.algorithm,
          protocol = settings.protocol, channels = static_cast<int>(settings.channels),
          reproducible = settings.reproducible, nccl = settings, said = std::make_shared<std::set<Collective>>(),
          shared = std::move(shared)](const schedule::Task& task, const Request& request,
                                      const protocol::Capabilities& can, bool registered) -> Result<schedule::Plan> {
    static std::mutex turns;  // threads may share a machine view, whose routes cache
    const std::lock_guard guard(turns);
    tune::Question own = question_of(task, request, can, registered);
    own.in_order = (reproducible || request.reproducible) && order_matters(request);
    tune::Question forced = own;
    if (own.algorithm.empty()) forced.algorithm = algorithm;
    if (own.algorithm.empty() && own.protocol.empty()) forced.protocol = protocol;
    if (own.channels == 0) forced.channels = channels;
    const std::string_view collective = schedule::name(task.collective);
    if (own.algorithm.empty()) forced.algorithms = env::filter_of(nccl.nccl_algorithms, collective);
    if (own.algorithm.empty() && own.protocol.empty())
      forced.protocols = env::filter_of(nccl.nccl_protocols, collective);
    forced.least_channels = static_cast<int>(nccl.least_channels);
    forced.most_channels = static_cast<int>(nccl.most_channels);
    forced.most_slice = slice_of_buffer(nccl.nccl_buffer);
    const bool shares = shared && may_be_shared(forced);
    const std::uint64_t key = shares ? key_of(own, forced, shared->depends_on) : 0;
    std::optional<net::memory::SearchClaim> claim;
    if (shares) {
      auto found = net::memory::find_choice(shared->segment, key);
      const bool crowded = task.ranks > static_cast<Rank>(machine->endpoints());
      if (!found && crowded) found = wait_for_search(*shared, key, task.ranks, static_cast<Rank>(machine->endpoints()));
      if (found)
        if (auto plan = plan_of(own, *found)) return plan;
      if (!found && crowded) claim.emplace(shared->segment, key);
    }
    if (const auto chosen = tune::choose(*machine, forced)) {
      log_choice(*log, *machine, forced, *chosen);
      if (shares) share(*shared, key, own, chosen->plan);
      return chosen->plan;
    }
    // Lists of NCCL's that leave nothing for this collective: algorithms are free, protocols if that can be.
    if (forced.algorithms.limits() || forced.protocols.limits()) {
      if (said->insert(task.collective).second)
        log->warn(LogPart::kPlan, "{} cannot be done by {}: another is chosen", collective,
                  forced.algorithms.limits() ? "NCCL_ALGO's " + forced.algorithms.text()
                                             : "NCCL_PROTO's " + forced.protocols.text());
      forced.algorithms = {};
      if (const auto chosen = tune::choose(*machine, forced)) return chosen->plan;
    }
    if (own.in_order && own.algorithm.empty() && !algorithm.empty() && said->insert(task.collective).second)
      log->warn(LogPart::kPlan, "WEFT_ALGO={} serves no {} of reproducible sums: another is chosen", algorithm,
                collective);
    WEFT_TRY(const auto chosen, tune::choose(*machine, own));
    log_choice(*log, *machine, own, chosen);
    return chosen.plan;
  };
}

}  // namespace weft::api
