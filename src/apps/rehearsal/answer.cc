#include "apps/rehearsal/answer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace weft::rehearsal {
namespace {

using nlohmann::json;

constexpr double kGiB = 1073741824.0;

// The line at which a rank's tensors first need more than the card has for them.
void check_memory(const Job& job, Answer& answer) {
  for (const Recording& rank : job.ranks) {
    Bytes allocated = 0, reserved = 0;
    const std::string* line = nullptr;
    for (const Event& event : rank.events) {
      if (event.kind != Event::Kind::kMemory) continue;
      allocated = std::max(allocated, event.allocated);
      reserved = std::max(reserved, event.reserved);
      if (line == nullptr && static_cast<double>(event.allocated) > answer.capacity) line = &event.line;
    }
    if (answer.largest < 0 || allocated > answer.allocated) answer.largest = rank.rank, answer.allocated = allocated;
    answer.reserved = std::max(answer.reserved, reserved);
    if (line == nullptr) continue;
    const bool known = std::ranges::any_of(answer.outcome.findings, [&](const Finding& f) {
      return f.rule == "memory" && f.places.front().line == *line;
    });
    if (known) continue;  // another rank of the kind
    answer.outcome.findings.push_back(
        {"memory",
         fmt::format(
             "rank {} runs out of memory{}: its tensors need {:.1f} GiB in the end, the card has {:.1f} GiB for them",
             rank.rank, line->empty() ? "" : " at " + *line, static_cast<double>(allocated) / kGiB,
             answer.capacity / kGiB),
         {{rank.rank, *line}}});
  }
}

// The factor of each rehearsed rank; it stands for the slowest one of its kind.
std::map<Rank, double> slow_ranks(const Job& job, const std::vector<RankKind>& kinds, const Prices& prices,
                                  std::vector<Note>& notes) {
  std::map<Rank, double> slow;
  for (const Recording& rank : job.ranks) slow[rank.rank] = prices.slow(rank.rank);
  for (const RankKind& kind : kinds) {
    if (kind.rehearsed.empty()) continue;
    const Rank slowest = *std::ranges::max_element(kind.ranks, {}, [&](Rank r) { return prices.slow(r); });
    if (prices.slow(slowest) <= 1 || slow.contains(slowest)) continue;
    slow[kind.rehearsed.front()] = prices.slow(slowest);
    notes.push_back({fmt::format("rank {} is slow and not rehearsed: rank {} of its kind computes as slowly", slowest,
                                 kind.rehearsed.front()),
                     ""});
  }
  return slow;
}

// by_category sums what a rank holds at its peak by category, and names the module that holds most of each.
std::vector<Held> by_category(const Job& job, Rank rank) {
  std::vector<Held> held;
  const Recording* recording = job.of(rank);
  if (recording == nullptr) return held;
  std::map<std::string, std::map<std::string, Bytes>> sums;
  for (const Held& h : recording->held) sums[h.category][h.module] += h.bytes;
  for (const auto& [category, modules] : sums) {
    Held all{category, "", 0};
    Bytes most = 0;
    for (const auto& [module, bytes] : modules) {
      all.bytes += bytes;
      if (bytes > most && !module.empty()) most = bytes, all.module = module;
    }
    held.push_back(all);
  }
  std::ranges::stable_sort(held, std::greater(), &Held::bytes);
  return held;
}

json to_json(const RankTime& rank) {
  json sites = json::array();
  for (const auto& [where, site] : rank.sites)
    sites.push_back({{"line", where.first},
                     {"op", where.second},
                     {"calls", site.calls},
                     {"bytes", site.bytes},
                     {"time_s", site.seconds},
                     {"exposed_s", site.exposed}});
  return {{"rank", rank.rank},
          {"time_s", rank.total},
          {"compute_s", rank.compute},
          {"exposed_s", rank.exposed},
          {"step_s", rank.step},
          {"step_flops", rank.step_flops},
          {"step_compute_s", rank.step_compute},
          {"step_exposed_s", rank.step_exposed},
          {"calls", sites}};
}

}  // namespace

Result<Answer> answer(const Job& job, Prices& prices) {
  if (job.world > prices.gpus())
    return bad_input("the rehearsal is of {} ranks, the machine has {} GPUs", job.world, prices.gpus());
  if (!job.card.empty()) WEFT_CHECK(prices.measured_on(job.card));
  Answer answer;
  answer.kinds = kinds_of(job);
  const std::map<Rank, double> slow = slow_ranks(job, answer.kinds, prices, answer.notes);
  const Durations durations{
      [&](const Call& call, const std::vector<Rank>& ranks, Rank self) { return prices.call(call, ranks, self); },
      [&](const Kernel& kernel, Rank rank) { return prices.kernel(kernel) * slow.at(rank); }};
  WEFT_TRY(answer.outcome, run(job, durations));
  answer.missing = missing(job);
  answer.capacity = prices.card().memory - prices.card().reserved;
  answer.peak_flops = prices.card().peak16;
  check_memory(job, answer);
  answer.held = by_category(job, answer.largest);
  WEFT_TRY(answer.hints, hints_of(job, answer.outcome, prices));
  std::set<std::pair<std::string, std::string>> seen;
  for (const Recording& rank : job.ranks)
    for (const Note& note : rank.notes)
      if (seen.emplace(note.text, note.line).second) answer.notes.push_back(note);
  if (prices.irregular() > 0)
    answer.notes.push_back(
        {fmt::format("{} calls of groups whose members are not a stride apart are timed as if they were",
                     prices.irregular()),
         ""});
  for (const auto& [rank, count] : answer.outcome.assumed)
    answer.notes.push_back(
        {fmt::format("rank {} is not rehearsed: {} messages with it are taken as answered", rank, count), ""});
  for (const RankTime& rank : answer.outcome.ranks)
    if (answer.slowest == nullptr ||
        std::pair(rank.step, rank.total) > std::pair(answer.slowest->step, answer.slowest->total))
      answer.slowest = &rank;
  if (answer.slowest != nullptr && answer.slowest->step > 0)
    answer.mfu = answer.slowest->step_flops / (answer.slowest->step * answer.peak_flops);
  return answer;
}

json to_json(const Job& job, const Answer& answer, const std::string& machine) {
  json findings = json::array(), ranks = json::array(), kinds = json::array(), notes = json::array();
  for (const Finding& f : answer.outcome.findings) {
    json places = json::array();
    for (const Place& p : f.places) places.push_back({{"rank", p.rank}, {"line", p.line}});
    findings.push_back({{"rule", f.rule}, {"text", f.text}, {"places", places}});
  }
  for (const RankTime& rank : answer.outcome.ranks) ranks.push_back(to_json(rank));
  for (const RankKind& kind : answer.kinds)
    kinds.push_back({{"ranks", kind.ranks.size()}, {"first", kind.ranks.front()}, {"rehearsed", kind.rehearsed}});
  json hints = json::array(), held = json::array();
  for (const Hint& hint : answer.hints)
    hints.push_back({{"rule", hint.rule}, {"text", hint.text}, {"line", hint.line}});
  for (const Held& h : answer.held)
    held.push_back({{"category", h.category}, {"bytes", h.bytes}, {"largest_module", h.module}});
  for (const Note& note : answer.notes) notes.push_back({{"text", note.text}, {"line", note.line}});
  return {{"schema", "weft.rehearsed/1"},
          {"machine", machine},
          {"script", job.ranks.empty() ? "" : job.ranks.front().script},
          {"world", job.world},
          {"findings", findings},
          {"missing", answer.missing},
          {"kinds", kinds},
          {"step_s", answer.slowest == nullptr ? 0 : answer.slowest->step},
          {"time_s", answer.slowest == nullptr ? 0 : answer.slowest->total},
          {"mfu", answer.mfu},
          {"memory",
           {{"rank", answer.largest},
            {"allocated", answer.allocated},
            {"reserved", answer.reserved},
            {"capacity", answer.capacity},
            {"held", held}}},
          {"ranks", ranks},
          {"hints", hints},
          {"notes", notes}};
}

}  // namespace weft::rehearsal
