#include "apps/rehearsal/hints.h"

#include <algorithm>
#include <set>
#include <utility>

#include "apps/rehearsal/kinds.h"
#include "base/text.h"

namespace weft::rehearsal {
namespace {

constexpr int kRun = 8;                     // consecutive calls that are worth a hint
constexpr double kSaved = 0.2;              // of their time, by one call instead
constexpr double kHeavy = 20e-6;            // s of computing between two calls: they may have been apart on purpose
constexpr double kTiny = 4096;              // B of a call that costs as much as an empty one
constexpr int kMany = 8;                    // calls
constexpr double kShare = 0.01;             // of the run that is waited for tiny calls
constexpr Bytes kAligned = 16;              // B, of which vectorised kernels move multiples
constexpr Bytes kWorthAligning = 64 << 10;  // B of a call

std::string as_time(double seconds) { return format_duration(Duration::seconds(seconds)); }

void unused_groups(const Job& job, std::vector<Hint>& hints) {
  std::set<int> used;
  for (const Recording& rank : job.ranks)
    for (const Call& call : rank.calls)
      if (call.op != "new_group") used.insert(call.group);
  bool first_made = true;
  for (const auto& dimension : dimensions(job)) {
    const Group& first = job.groups[static_cast<std::size_t>(dimension.front())];
    const bool of_init = std::exchange(first_made, false);  // init_process_group's
    const bool known = std::ranges::any_of(dimension, [&](int g) {
      return std::ranges::any_of(job.groups[static_cast<std::size_t>(g)].ranks,
                                 [&](Rank r) { return job.of(r) != nullptr; });
    });
    if (of_init || !known || first.ranks.size() < 2 ||
        std::ranges::any_of(dimension, [&](int g) { return used.contains(g); }))
      continue;
    hints.push_back(
        {"unused_group",
         fmt::format("{} of {} ranks {} made and never used: each takes memory of the card and time at the start",
                     dimension.size() == 1 ? "a group" : fmt::format("{} groups", dimension.size()), first.ranks.size(),
                     dimension.size() == 1 ? "is" : "are"),
         first.line});
  }
}

// Calls of one operation, group and line that follow each other.
struct Run {
  const Event* first = nullptr;
  const Call* call = nullptr;
  int calls = 0;
  Bytes bytes = 0;
  double seconds = 0, between = 0;
};

Status say_run(const Job& job, const Recording& rank, const Run& run, Prices& prices, std::vector<Hint>& hints) {
  if (run.calls < kRun) return {};
  Call one = *run.call;
  one.bytes = run.bytes;
  WEFT_TRY(const double together, prices.call(one, job.groups[static_cast<std::size_t>(one.group)].ranks, rank.rank));
  if (together > run.seconds * (1 - kSaved)) return {};
  hints.push_back({"could_be_one",
                   fmt::format("{} {} one after the other take {}, one of all their {} takes {}", run.calls,
                               run.call->op, as_time(run.seconds), format_bytes(run.bytes), as_time(together)),
                   run.first->line});
  return {};
}

Status consecutive_calls(const Job& job, const Recording& rank, Prices& prices, std::vector<Hint>& hints) {
  Run run;
  for (const Event& event : rank.events) {
    if (event.kind == Event::Kind::kKernel) {
      const Kernel& kernel = rank.kernels[static_cast<std::size_t>(event.index)];
      if (run.calls > 0) run.between = std::max(run.between, prices.kernel(kernel));
      continue;
    }
    if (event.kind == Event::Kind::kStep) run.between = kHeavy;
    if (event.kind != Event::Kind::kCall) continue;
    const Call& call = rank.calls[static_cast<std::size_t>(event.index)];
    const bool same = run.calls > 0 && run.between < kHeavy && run.first->line == event.line &&
                      run.call->op == call.op && run.call->group == call.group && run.call->type == call.type &&
                      run.call->reduce == call.reduce;
    if (!same) {
      WEFT_CHECK(say_run(job, rank, run, prices, hints));
      run = {};
    }
    if (call.message() || call.type.empty() || call.batch != 0) continue;
    if (run.calls == 0) run.first = &event, run.call = &call;
    ++run.calls;
    run.bytes += call.bytes;
    run.between = 0;
    WEFT_TRY(const double seconds,
             prices.call(call, job.groups[static_cast<std::size_t>(call.group)].ranks, rank.rank));
    run.seconds += seconds;
  }
  return say_run(job, rank, run, prices, hints);
}

void tiny_messages(const RankTime& rank, std::vector<Hint>& hints) {
  for (const auto& [where, site] : rank.sites) {
    const double each = site.bytes / std::max(1, site.calls);
    if (site.bytes == 0 || each > kTiny || site.calls < kMany || site.exposed < kShare * rank.total) continue;
    hints.push_back(
        {"tiny_messages",
         fmt::format("{} {} of {:.0f} B each are waited for {}, {:.1f} % of the run: their number costs, not "
                     "their size",
                     site.calls, where.second, each, as_time(site.exposed), 100 * site.exposed / rank.total),
         where.first});
  }
}

void unaligned(const Recording& rank, std::vector<Hint>& hints) {
  for (const Event& event : rank.events) {
    if (event.kind != Event::Kind::kCall) continue;
    const Call& call = rank.calls[static_cast<std::size_t>(event.index)];
    if ((call.op != "all_gather" && call.op != "reduce_scatter") || call.bytes < kWorthAligning) continue;
    const Bytes element = element_bytes_of(call.type);
    const Bytes part = call.count * element;
    if (element == 0 || part % kAligned == 0) continue;
    hints.push_back({"unaligned",
                     fmt::format("{} of {} {} each: {} B are no multiple of {} B, which slower kernels move", call.op,
                                 call.count, call.type, part, kAligned),
                     event.line});
  }
}

}  // namespace

Result<std::vector<Hint>> hints_of(const Job& job, const Outcome& outcome, Prices& prices) {
  std::vector<Hint> found, hints;
  unused_groups(job, found);
  for (const Recording& rank : job.ranks) WEFT_CHECK(consecutive_calls(job, rank, prices, found));
  for (const RankTime& rank : outcome.ranks) tiny_messages(rank, found);
  for (const Recording& rank : job.ranks) unaligned(rank, found);
  std::set<std::pair<std::string, std::string>> said;
  for (Hint& hint : found)
    if (said.emplace(hint.rule, hint.line).second) hints.push_back(std::move(hint));
  return hints;
}

}  // namespace weft::rehearsal
