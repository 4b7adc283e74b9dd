#include "apps/cli/commands.h"
#include "base/text.h"
#include "exec/recorder/timeline.h"

namespace weft::cli {
namespace {

struct Spec {
  std::vector<std::string> files;
  std::string out, json;
};

using recorder::RankTimes;

std::string time_of(double microseconds) { return format_duration(Duration::nanoseconds(microseconds * 1e3)); }

// The peer that a rank waited for the longest; null: none.
const std::pair<const Rank, double>* longest(const RankTimes& times) {
  const std::pair<const Rank, double>* most = nullptr;
  for (const auto& peer : times.waiting_for)
    if (most == nullptr || peer.second > most->second) most = &peer;
  return most;
}

void print(const recorder::Timeline& timeline) {
  const RankTimes* before = nullptr;
  for (const RankTimes& times : timeline.ranks) {
    if (before == nullptr || before->job != times.job || before->communicator != times.communicator)
      fmt::print("job {}, communicator {}, {} ranks\n", times.job, times.communicator, times.ranks);
    before = &times;
    fmt::print("  rank {:<4} {:>8} calls in {:>9}, waiting {:>9}", times.rank, times.calls, time_of(times.in_calls),
               time_of(times.waiting));
    if (const auto* most = longest(times)) fmt::print(", of it {} for rank {}", time_of(most->second), most->first);
    fmt::print("{}\n", times.breaks_off ? "; breaks off" : "");
  }
}

nlohmann::json summary(const recorder::Timeline& timeline) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankTimes& t : timeline.ranks) {
    nlohmann::json waiting_for = nlohmann::json::object();
    for (const auto& [peer, time] : t.waiting_for) waiting_for[std::to_string(peer)] = time;
    ranks.push_back({{"job", t.job},
                     {"communicator", t.communicator},
                     {"rank", t.rank},
                     {"calls", t.calls},
                     {"in_calls_us", t.in_calls},
                     {"waiting_us", t.waiting},
                     {"waiting_for_us", waiting_for},
                     {"breaks_off", t.breaks_off}});
  }
  return {{"schema", "weft.trace_summary/1"}, {"ranks", ranks}};
}

Result<int> trace(const Spec& spec) {
  WEFT_TRY(const auto timeline, recorder::merge_traces(spec.files));
  if (!spec.out.empty())
    WEFT_CHECK(write_json(spec.out, {{"traceEvents", timeline.events}, {"displayTimeUnit", "ns"}}));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, summary(timeline)));
  if (spec.json != "-" && spec.out != "-") print(timeline);
  return 0;
}

}  // namespace

Command add_trace(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub =
      app.add_subcommand("trace", "Join the timelines that ranks left: one picture, and who waited for whom");
  sub->add_option("files", spec->files, "what WEFT_TRACE made the ranks write")->required();
  sub->add_option("--out", spec->out, "the timeline of all ranks, for ui.perfetto.dev or chrome://tracing; - is stdout")
      ->check(writable);
  sub->add_option("--json", spec->json, "write weft.trace_summary/1 to this file; - is stdout instead of text")
      ->check(writable);
  sub->footer(
      "\nWEFT_TRACE_EVENTS says what ranks write: call, wait, move (every slice), all. Ranks on several machines are "
      "as\n"
      "far apart as their clocks.\n\nExamples:\n  WEFT_TRACE=/tmp/t-%r.json weft run -n 4 -- ./program\n"
      "  weft trace /tmp/t-*.json --out /tmp/all.json\n");
  return {sub, [spec] { return trace(*spec); }};
}

}  // namespace weft::cli
