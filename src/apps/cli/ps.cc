#include <algorithm>
#include <set>

#include "apps/cli/commands.h"
#include "apps/cli/http_post.h"
#include "base/text.h"
#include "exec/recorder/json.h"
#include "exec/recorder/metrics.h"
#include "exec/recorder/rails.h"
#include "exec/recorder/recorder.h"

namespace weft::cli {
namespace {

using recorder::Doing;
using recorder::Snapshot;
using recorder::Standing;

struct Spec {
  std::string job, json, prometheus, otlp;
  std::int64_t last = 0;
};

std::string ago(std::int64_t then, std::int64_t now) {
  return format_duration(Duration::nanoseconds(static_cast<double>(now - then)));
}

bool failed(const Snapshot* s) {
  return s != nullptr && s->last() != nullptr && s->last()->state == recorder::State::kFailed;
}
// The first rank whose last call failed; -1: none.
std::ptrdiff_t failed_rank(const Standing& s) {
  const auto at = std::ranges::find_if(s.ranks, failed);
  return at == s.ranks.end() ? -1 : at - s.ranks.begin();
}

std::string operation_text(const Snapshot& s, const recorder::Operation& o) {
  std::string text = fmt::format("{} #{}", o.collective, o.number);
  if (!o.algorithm.empty())
    text += fmt::format(" of {} {}, {} {} x{}", o.count, o.type, o.algorithm, o.protocol, o.channels);
  else
    text += fmt::format(" of {} transfers", o.count);
  return text + (o.finished == 0 ? fmt::format(", since {}", ago(o.started, s.taken))
                                 : fmt::format(", {} {} ago", o.state == recorder::State::kFailed ? "failed" : "ended",
                                               ago(o.finished, s.taken)));
}

void print_rank(Rank rank, const Snapshot* s, Doing doing, std::size_t last) {
  if (s == nullptr) return fmt::print("  rank {:<4} {:>8}  {}\n", rank, "-", recorder::name(doing));
  fmt::print("  rank {:<4} {:>8}  {:<10}", rank, s->pid, recorder::name(doing));
  if (s->wait)
    fmt::print(" for rank {} at step {} of {}, since {};", s->wait->peer, s->wait->step, s->wait->steps,
               ago(s->wait->since, s->taken));
  if (s->tagged) fmt::print(" in {}, since {};", s->tagged->text(), ago(s->tagged->since, s->taken));
  if (s->sends + s->receives > 0) fmt::print(" {} sends and {} receives with tags;", s->sends, s->receives);
  fmt::print(" {}\n", s->last() == nullptr ? "no collective yet" : operation_text(*s, *s->last()));
  for (std::size_t i = s->operations.size() - std::min(s->operations.size(), last); i < s->operations.size(); ++i)
    fmt::print("      {}, took {}\n", operation_text(*s, s->operations[i]),
               s->operations[i].finished == 0 ? "…" : ago(s->operations[i].started, s->operations[i].finished));
}

// Whether messages of this transport go over sockets, whose interfaces are worth a line.
bool has_rails(const Standing& s) { return s.transport.find("tcp") != std::string::npos; }

void print_rails(Rank rank, const Snapshot& s) {
  std::string text;
  for (const recorder::Rail& r : recorder::rails_of(s.pid))
    text += fmt::format("{}{} {} connections, {} out, {} in", text.empty() ? "" : "; ", r.interface, r.connections,
                        format_bytes(r.out), format_bytes(r.in));
  if (!text.empty()) fmt::print("  rank {:<4} sockets: {}\n", rank, text);
}

// The form that recorder::to_json() gives, with what every rank's sockets have carried.
nlohmann::json with_rails(const std::vector<Standing>& standings) {
  nlohmann::json all = recorder::to_json(standings);
  for (std::size_t c = 0; c < standings.size(); ++c)
    for (std::size_t r = 0; r < standings[c].ranks.size() && has_rails(standings[c]); ++r) {
      if (standings[c].ranks[r] == nullptr) continue;
      nlohmann::json& rails = all["communicators"][c]["ranks"][r]["sockets"] = nlohmann::json::array();
      for (const recorder::Rail& rail : recorder::rails_of(standings[c].ranks[r]->pid))
        rails.push_back({{"interface", rail.interface},
                         {"connections", rail.connections},
                         {"out_bytes", rail.out},
                         {"in_bytes", rail.in}});
    }
  return all;
}

void print(const Standing& s, std::size_t last) {
  fmt::print("job {}, communicator {}, {} ranks over {}\n", s.job, s.group, s.ranks.size(), s.transport);
  for (std::size_t r = 0; r < s.ranks.size(); ++r) print_rank(static_cast<Rank>(r), s.ranks[r], s.doing[r], last);
  for (std::size_t r = 0; r < s.ranks.size() && has_rails(s); ++r)
    if (s.ranks[r] != nullptr) print_rails(static_cast<Rank>(r), *s.ranks[r]);
  for (const recorder::Late& l : s.late)
    fmt::print("  late: rank {} keeps {} waiting: {}\n", l.rank,
               l.behind == 1 ? "1 rank" : fmt::format("{} ranks", l.behind), l.why);
  // A stopped or ended rank that no recorded wait leads to: agree(), shrink() and meetings record none.
  for (std::size_t r = 0; r < s.doing.size(); ++r) {
    const bool known =
        std::ranges::any_of(s.late, [&](const recorder::Late& l) { return l.rank == static_cast<Rank>(r); });
    if (!known && (s.doing[r] == Doing::kStopped || s.doing[r] == Doing::kEnded))
      fmt::print("  rank {}: its process {}; ranks that agree, shrink or meet wait for it\n", r,
                 s.doing[r] == Doing::kStopped ? "is stopped by a signal" : "has ended");
  }
  if (!s.circle.empty())
    fmt::print("  circle: ranks {} wait for each other{}{}\n", fmt::join(s.circle, ", "),
               s.disagreement.empty() ? "" : ": ", s.disagreement);
}

void print_jobs(const std::vector<Standing>& standings) {
  if (standings.empty()) return fmt::print("no job of this user runs here\n");
  fmt::print("{:<34} {:<20} {:>6} {:<10} {}\n", "JOB", "COMMUNICATOR", "RANKS", "TRANSPORT", "STATE");
  for (const Standing& s : standings) {
    std::string state = "moves";
    if (std::ranges::all_of(s.doing, [](Doing d) { return d == Doing::kIdle; })) state = "idle";
    if (const auto failed = failed_rank(s); failed >= 0) state = fmt::format("a call failed on rank {}", failed);
    // A rank that does nothing more holds the others up sooner or later, in calls that are not recorded, too.
    for (const auto& [doing, words] : {std::pair{Doing::kEnded, "has ended"}, {Doing::kStopped, "is stopped"}})
      if (const auto at = std::ranges::find(s.doing, doing); at != s.doing.end())
        state = fmt::format("rank {} {}", at - s.doing.begin(), words);
    if (!s.late.empty()) state = fmt::format("rank {} is late", s.late.front().rank);
    if (!s.circle.empty()) state = "its ranks wait for each other";
    fmt::print("{:<34} {:<20} {:>6} {:<10} {}\n", s.job, s.group, s.ranks.size(), s.transport, state);
  }
}

// Those of one job, by the beginning of its name. Errors (bad input): no such job, or several.
Status select(std::vector<Standing>& standings, const std::string& job) {
  std::erase_if(standings, [&](const Standing& s) { return s.job.rfind(job, 0) != 0; });
  if (standings.empty()) return bad_input("no job of this user is called '{}' here; weft ps lists them", job);
  std::set<std::string> names;
  for (const Standing& s : standings) names.insert(s.job);
  if (names.size() > 1) return bad_input("'{}' is the beginning of {} jobs; give more of the name", job, names.size());
  return {};
}

// The ranks of these communicators, as they were read.
std::vector<Snapshot> ranks_of(const std::vector<Standing>& standings) {
  std::vector<Snapshot> all;
  for (const Standing& s : standings)
    for (const Snapshot* rank : s.ranks)
      if (rank != nullptr) all.push_back(*rank);
  return all;
}

// For monitoring systems. Errors: of the file, or of the collector that is posted to.
Status export_counters(const Spec& spec, const std::vector<Snapshot>& ranks) {
  if (!spec.prometheus.empty()) WEFT_CHECK(write_text(spec.prometheus, recorder::to_prometheus(ranks)));
  if (spec.otlp.find("://") != std::string::npos) return post_json(spec.otlp, recorder::to_otlp(ranks).dump());
  return spec.otlp.empty() ? Status() : write_json(spec.otlp, recorder::to_otlp(ranks));
}

Result<int> ps(const Spec& spec) {
  if (spec.last < 0) return bad_input("--last {}: a number of operations is needed", spec.last);
  WEFT_TRY(const std::string folder, recorder::own_folder());
  const auto snapshots = recorder::read_folder(folder, static_cast<std::size_t>(std::max<std::int64_t>(spec.last, 1)));
  auto standings = recorder::standings(snapshots);
  if (!spec.job.empty()) WEFT_CHECK(select(standings, spec.job));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, with_rails(standings)));
  if (!spec.prometheus.empty() || !spec.otlp.empty()) WEFT_CHECK(export_counters(spec, ranks_of(standings)));
  if (spec.json == "-" || spec.prometheus == "-" || spec.otlp == "-") return 0;
  if (spec.job.empty()) {
    print_jobs(standings);
    return 0;
  }
  for (const Standing& s : standings) print(s, static_cast<std::size_t>(spec.last));
  return 0;
}

}  // namespace

Command add_ps(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("ps", "Show running jobs: who waits for whom, and which rank is late");
  sub->add_option("job", spec->job, "a job, or the beginning of its name; without: all jobs, a line each");
  sub->add_option("--last", spec->last, "also show this number of operations of every rank");
  sub->add_option("--json", spec->json, "write weft.ps/1 to this file; - is stdout instead of text")->check(writable);
  sub->add_option("--prometheus", spec->prometheus,
                  "write the ranks' counters in Prometheus' text format, e.g. for node_exporter's textfile collector; "
                  "- is stdout instead of text")
      ->check(writable);
  sub->add_option("--otlp", spec->otlp,
                  "write them as OpenTelemetry metrics (OTLP, JSON) to this file, or post them to a collector: "
                  "http://HOST:4318/v1/metrics; - is stdout instead of text")
      ->type_name("FILE|URL");
  sub->footer(
      "\nOnly jobs of this user on this machine are seen.\n\nExamples:\n  weft ps\n  weft ps 3f2a --last 5\n  weft ps "
      "--prometheus -\n");
  return {sub, [spec] { return ps(*spec); }};
}

}  // namespace weft::cli
