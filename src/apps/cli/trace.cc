#include <algorithm>
#include <span>

#include "apps/cli/commands.h"
#include "base/counted.h"
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

std::string text_of(const recorder::Rail& rail) {
  const std::string speed = rail.speed > 0 ? fmt::format(" ({:.3g} Gb/s)", rail.speed * 1e-9) : "";
  if (rail.most() == 0) return fmt::format("{}{} nothing", rail.interface, speed);
  constexpr double kMega = 1e6;
  return fmt::format("{}{} {:.4g} MB out, {:.4g} MB in", rail.interface, speed, static_cast<double>(rail.out) / kMega,
                     static_cast<double>(rail.in) / kMega);
}

// Seconds that links which carried less than their share would have saved; below a hundredth of the time: none.
double saved(const recorder::RailUse& use) {
  constexpr double kWorthALine = 0.01;
  return use.known && use.took - use.least > kWorthALine * use.took ? use.took - use.least : 0;
}

void print_rails(const RankTimes& times) {
  if (times.rails.empty()) return;
  std::string text;
  for (const recorder::Rail& rail : times.rails) text += (text.empty() ? "" : "; ") + text_of(rail);
  const recorder::RailUse use = recorder::use_of(times.rails);
  if (const double seconds = saved(use); seconds > 0)
    text += fmt::format("; at these speeds {}, {} less with a share for each by its speed", time_of(use.took * 1e6),
                        time_of(seconds * 1e6));
  else if (times.rails.size() > 1 && !use.known)
    text += "; the speed of a link is not known, so nothing is said of its share";
  fmt::print("       {:<4} sockets: {}\n", "", text);
}

// Ranks of a communicator of which no file was given, and those of which several were.
void print_gaps(std::span<const RankTimes> ranks) {
  if (ranks.empty()) return;
  std::map<Rank, int> files;
  for (const RankTimes& times : ranks) ++files[times.rank];
  std::vector<Rank> missing, several;
  for (Rank r = 0; r < ranks[0].ranks; ++r) {
    const auto found = files.find(r);
    if (found == files.end()) missing.push_back(r);
    if (found != files.end() && found->second > 1) several.push_back(r);
  }
  constexpr std::size_t kShown = 16;
  const auto some = [&](const std::vector<Rank>& all) {
    return fmt::format("{}{}", fmt::join(std::span(all).first(std::min(all.size(), kShown)), " "),
                       all.size() > kShown ? " …" : "");
  };
  if (!missing.empty()) fmt::print("  no file of {} {}\n", plural(std::ssize(missing), "rank"), some(missing));
  if (!several.empty())
    fmt::print("  several files of {} {}: their times stand apart\n", plural(std::ssize(several), "rank"),
               some(several));
}

void print_rank(const RankTimes& times) {
  fmt::print("  rank {:<4} {:>8} calls in {:>9}, waiting {:>9}", times.rank, times.calls, time_of(times.in_calls),
             time_of(times.waiting));
  if (const auto* most = longest(times)) fmt::print(", of it {} for rank {}", time_of(most->second), most->first);
  fmt::print("{}\n", times.breaks_off ? "; breaks off" : "");
  print_rails(times);
}

void print(const recorder::Timeline& timeline) {
  for (auto begin = timeline.ranks.begin(); begin != timeline.ranks.end();) {
    const auto end = std::find_if(begin, timeline.ranks.end(), [&](const RankTimes& times) {
      return times.job != begin->job || times.communicator != begin->communicator;
    });
    fmt::print("job {}, communicator {}, {}\n", begin->job, begin->communicator, counted(begin->ranks, "rank"));
    std::for_each(begin, end, print_rank);
    print_gaps({begin, end});
    begin = end;
  }
}

nlohmann::json summary(const recorder::Timeline& timeline) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankTimes& t : timeline.ranks) {
    nlohmann::json waiting_for = nlohmann::json::object();
    for (const auto& [peer, time] : t.waiting_for) waiting_for[std::to_string(peer)] = time;
    const recorder::RailUse use = recorder::use_of(t.rails);
    ranks.push_back({{"job", t.job},
                     {"communicator", t.communicator},
                     {"rank", t.rank},
                     {"calls", t.calls},
                     {"in_calls_us", t.in_calls},
                     {"waiting_us", t.waiting},
                     {"waiting_for_us", waiting_for},
                     {"links", t.rails},
                     {"breaks_off", t.breaks_off}});
    if (use.known) ranks.back()["links_saved_us"] = saved(use) * 1e6;
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
  CLI::App* sub = app.add_subcommand(
      "trace", "Join the timelines that ranks left: one picture, who waited for whom, and which links carried what");
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
