#include "apps/doctor/diagnosis.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <span>

#include "base/counted.h"
#include "base/text.h"

namespace weft::doctor {
namespace {

using report::DoctorFinding;
using report::DoctorReport;

constexpr std::size_t kMostRoots = 3, kMostEvidence = 4;
constexpr int kNamesCause = 3;

// All facts of one rule.
struct Group {
  const Rule* rule = nullptr;
  std::vector<const Fact*> facts;
  std::size_t count = 0;        // of all facts, kept or not
  std::set<int> ranks;          // of all facts
  std::optional<double> first;  // time; none: none of them has one
};

std::vector<Group> groups_of(const Evidence& evidence) {
  std::map<std::size_t, Group> by_rule;
  for (const Fact& fact : evidence.facts()) {
    Group& group = by_rule[fact.rule];
    group.rule = &evidence.rules()[fact.rule];
    group.facts.push_back(&fact);
    group.count = evidence.count(fact.rule);
    group.ranks = evidence.ranks(fact.rule);
    if (fact.at && (!group.first || *fact.at < *group.first)) group.first = fact.at;
  }
  const auto there = [&](const std::string& id) { return evidence.has(id); };
  std::vector<Group> groups;
  for (auto& [number, group] : by_rule) {
    const Rule& rule = *group.rule;
    if (rule.role != Role::kNote && std::ranges::all_of(rule.needs, there) && std::ranges::none_of(rule.without, there))
      groups.push_back(std::move(group));
  }
  return groups;
}

// Roots without a time stand behind those with one.
bool before(const Group& a, const Group& b) {
  if (a.rule->strength != b.rule->strength) return a.rule->strength > b.rule->strength;
  if (a.first.has_value() != b.first.has_value()) return a.first.has_value();
  if (a.first && *a.first != *b.first) return *a.first < *b.first;
  return a.count > b.count;
}

bool listed(const DoctorFinding& f, const Fact& fact) {
  return std::ranges::any_of(
      f.evidence, [&](const auto& e) { return e.file == fact.file && e.line == fact.line && e.text == fact.text; });
}

// The peer that most facts name, with its host where a log says whose address it is; empty: none is named.
std::string peer_of(const Evidence& evidence, const Group& group) {
  std::map<std::string, int> peers;
  for (const Fact* fact : group.facts)
    if (!fact->peer.empty()) ++peers[fact->peer];
  if (peers.empty()) return "";
  const std::string peer = std::ranges::max_element(peers, {}, [](const auto& p) { return p.second; })->first;
  const std::string host = evidence.job().host_of(peer);
  return host.empty() || host == peer ? peer : fmt::format("{} ({})", peer, host);
}

// Where a line says that something is broken: "mlx5_3 port 1", "GPU 0000:9b:00 on node17", "node17"; empty: it does
// not. Only a kernel's line is about its own host: other lines say what a rank there saw.
std::string place_of(const Fact& fact) {
  const bool of_host = !fact.host.empty() && (fact.source == "dmesg" || fact.part.starts_with("GPU "));
  if (!of_host) return fact.part;
  return fact.part.empty() ? fact.host : fmt::format("{} on {}", fact.part, fact.host);
}

DoctorFinding finding_of(const Evidence& evidence, const Group& group, bool second_source) {
  const Rule& rule = *group.rule;
  DoctorFinding f{.id = rule.id,
                  .finding = rule.finding,
                  .role = std::string(name(rule.role)),
                  .facts = group.count,
                  .remedy = rule.remedy,
                  .verify = rule.verify,
                  .refuted = rule.refuted,
                  .versions = rule.versions};
  f.confidence = rule.strength >= kNamesCause || second_source ? "confirmed" : "suspected";
  f.ranks.assign(group.ranks.begin(), group.ranks.end());
  // The earliest lines first, and one of each rank before a second of any.
  std::vector<const Fact*> facts = group.facts;
  std::ranges::stable_sort(facts, {},
                           [](const Fact* fact) { return fact->at.value_or(std::numeric_limits<double>::infinity()); });
  std::set<int> shown;
  for (const bool again : {false, true})
    for (const Fact* fact : facts)
      if (f.evidence.size() < kMostEvidence && (fact->rank >= 0 && shown.insert(fact->rank).second) != again &&
          (again ? !listed(f, *fact) : true))
        f.evidence.push_back({fact->file, fact->text, fact->host, fact->time, fact->line, fact->rank});
  for (const Fact* fact : facts)
    if (const std::string part = place_of(*fact); !part.empty() && std::ranges::find(f.parts, part) == f.parts.end())
      f.parts.push_back(part);
  // A host alone says nothing beside a part of it.
  const std::vector<std::string> parts = f.parts;
  std::erase_if(f.parts, [&](const std::string& host) {
    return std::ranges::any_of(parts, [&](const std::string& part) { return part.ends_with(" on " + host); });
  });
  // The peer that others name is nearer to the cause than the ranks that complain.
  f.peer = peer_of(evidence, group);
  return f;
}

// Does something else in the evidence say the same?
bool is_confirmed(const std::vector<Group>& groups, const Group& root) {
  const Rule& rule = *root.rule;
  return std::ranges::any_of(groups, [&](const Group& other) {
    if (&other == &root) return false;
    if (!rule.confirmed_by.empty())
      return std::ranges::find(rule.confirmed_by, other.rule->id) != rule.confirmed_by.end();
    return (other.rule->role == Role::kConfirm || other.rule->role == Role::kRoot) &&
           other.facts.front()->source != root.facts.front()->source;
  });
}

// The peer that effects name most; empty: none.
std::string closed_peer(const Evidence& evidence, const std::vector<Group>& groups) {
  for (const Group& group : groups)
    if (group.rule->role == Role::kTeardown || group.rule->role == Role::kCascade)
      if (std::string peer = peer_of(evidence, group); !peer.empty()) return peer;
  return "";
}

std::string next_of(const Evidence& evidence, const std::vector<Group>& groups) {
  std::string text =
      "not enough evidence: set NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV ";
  if (!evidence.has_recorder())
    text += "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=fr_rank_ ";
  text += "and run again; bring dmesg of all hosts";
  const Job& job = evidence.job();
  if (job.watchdog_sequence >= 0)
    text += fmt::format("; the smallest SeqNum in a watchdog's line is {}{}", job.watchdog_sequence,
                        job.watchdog_rank >= 0 ? fmt::format(", of rank {}", job.watchdog_rank) : "");
  if (const std::string missing = job.missing(); !missing.empty()) text += "; " + missing + ": begin there";
  if (const std::string peer = closed_peer(evidence, groups); !peer.empty())
    text += fmt::format("; the peer that most saw close is {}: its log comes first", peer);
  return text;
}

// ", mlx5_3 port 1 and mlx5_4 port 1": the parts of a machine.
std::string parts_in_words(const DoctorFinding& f) {
  constexpr std::size_t kMostParts = 4;
  if (f.parts.empty()) return "";
  const std::size_t named = std::min(kMostParts, f.parts.size());
  return fmt::format(", {}{}", fmt::join(std::span(f.parts).first(named), " and "),
                     named < f.parts.size() ? fmt::format(" and {} more", f.parts.size() - named) : "");
}

std::string ranks_in_words(const DoctorFinding& f) {
  constexpr std::size_t kMostNamed = 8;
  if (!f.peer.empty()) return fmt::format(", peer {}", f.peer);
  if (f.ranks.empty()) return "";
  const bool all = f.ranks.size() <= kMostNamed;
  return fmt::format(", {} {}{}", plural(f.ranks.size(), "rank"),
                     fmt::join(std::span(f.ranks).first(std::min(kMostNamed, f.ranks.size())), " "),
                     all ? "" : fmt::format(" and {} more", f.ranks.size() - kMostNamed));
}

// The lines that no rule knows. Ranks' first lines: the earliest is the nearest to the cause, as far as clocks agree.
void add_unknown(const Evidence& evidence, DoctorReport& report) {
  constexpr std::size_t kMostUnknown = 8;
  report.unknown_lines = evidence.unknown_lines();
  for (const auto& one : evidence.unknown()) {
    if (report.unknown.size() == kMostUnknown) break;
    const Fact& f = one.fact;
    report.unknown.push_back({{f.file, f.text, f.host, f.time, f.line, f.rank},
                              one.trouble == Trouble::kFatal   ? "fatal"
                              : one.trouble == Trouble::kError ? "error"
                                                               : "warning"});
  }
}

// Damaged dumps are among them, and no more among the files that were not read.
void add_damaged(const Evidence& evidence, DoctorReport& report) {
  for (const Recorder::Damaged& one : evidence.damaged()) {
    report.damaged.push_back({.file = one.file, .text = one.why, .rank = one.rank});
    std::erase_if(report.left_out, [&](const std::string& file) { return file.starts_with(one.file + ": "); });
  }
}

// Who is to blame, and who only suffers: ranks of effects that the first finding does not blame.
void split_ranks(const std::vector<Group>& groups, DoctorReport& report) {
  if (report.roots.empty()) return;
  const DoctorFinding& first = report.roots.front();
  report.culprits = first.ranks;
  if (report.culprits.empty()) return;
  std::set<int> victims;
  for (const Group& group : groups)
    if (group.rule->id != first.id) victims.insert(group.ranks.begin(), group.ranks.end());
  for (const int rank : first.ranks) victims.erase(rank);
  report.victims.assign(victims.begin(), victims.end());
}

std::string unknown_in_words(const DoctorReport& report) {
  constexpr std::size_t kLongest = 120;
  const auto worst = [&](std::string_view severity) {
    return std::ranges::find(report.unknown, severity, &DoctorReport::Unknown::severity);
  };
  auto at = worst("fatal");
  if (at == report.unknown.end()) at = worst("error");
  if (at == report.unknown.end()) at = report.unknown.begin();
  const auto& fact = at->fact;
  std::string quoted = fact.text.substr(0, kLongest);
  std::ranges::replace(quoted, '\t', ' ');
  return fmt::format("No rule knows {}: {}\"{}\"", at->severity == "warning" ? "this warning" : "what this reports",
                     fact.rank >= 0 ? fmt::format("rank {}: ", fact.rank) : "", shown(quoted));
}

// "the dump of rank 2 is cut or damaged"; empty: none is.
std::string damaged_in_words(const DoctorReport& report) {
  if (report.damaged.empty()) return "";
  std::set<int> ranks;
  for (const auto& one : report.damaged)
    if (one.rank >= 0) ranks.insert(one.rank);
  const bool one = report.damaged.size() == 1;
  return fmt::format("{} {}",
                     one ? "a flight recorder dump is cut or damaged"
                         : fmt::format("{} flight recorder dumps are cut or damaged", report.damaged.size()),
                     ranks.empty() ? "" : fmt::format("({} {})", plural(ranks.size(), "rank"), fmt::join(ranks, " ")));
}

std::string nothing_in_words(const DoctorReport& report) {
  const auto hint = std::ranges::find(report.folded, name(Role::kConfig), &DoctorFinding::role);
  if (hint != report.folded.end())
    return fmt::format("No fault found; worth knowing: {}{}", hint->finding, parts_in_words(*hint));
  if (report.tables) return "No fault found in a table of measured collectives; weft check says whether it is slow";
  return report.lines > 0 && report.not_understood >= report.lines
             ? "No fault found, and no line that the doctor reads: these may be no logs of a job"
             : "No fault found";
}

std::string verdict_of(const DoctorReport& report) {
  const std::string damaged = damaged_in_words(report);
  if (!report.roots.empty()) {
    const DoctorFinding& first = report.roots.front();
    const std::string victims =
        report.victims.empty() ? "" : fmt::format("; victims: {}", counted(report.victims.size(), "other rank"));
    return fmt::format("{} ({}{}{}){}{}", first.finding, first.confidence, ranks_in_words(first), parts_in_words(first),
                       victims, damaged.empty() ? "" : "; " + damaged);
  }
  if (!report.unknown.empty()) return unknown_in_words(report);
  if (!report.next.empty())
    return fmt::format("Something ended this job, and its cause is not in the evidence{}{}",
                       report.peer.empty() ? "" : fmt::format("; the peer that most saw close is {}", report.peer),
                       damaged.empty() ? "" : "; " + damaged);
  if (!damaged.empty())
    return static_cast<char>(std::toupper(static_cast<unsigned char>(damaged[0]))) + damaged.substr(1) +
           ": what could be read names no cause";
  if (report.slow.empty()) {
    const auto known = std::ranges::find(report.folded, name(Role::kConfirm), &DoctorFinding::role);
    if (known == report.folded.end()) return nothing_in_words(report);
    return fmt::format("Nothing has failed; a part asks for care: {}{}{}", known->finding, ranks_in_words(*known),
                       parts_in_words(*known));
  }
  return fmt::format("No fault; slow: {}{}{}", report.slow.front().finding, parts_in_words(report.slow.front()),
                     report.slow.size() == 1 ? "" : fmt::format(", and {} more", report.slow.size() - 1));
}

}  // namespace

DoctorReport diagnose(const Evidence& evidence) {
  DoctorReport report{.files = static_cast<std::int64_t>(evidence.files()),
                      .lines = evidence.lines(),
                      .not_understood = evidence.not_understood(),
                      .left_out = evidence.left_out(),
                      .notes = evidence.notes()};
  std::vector<Group> groups = groups_of(evidence);
  std::ranges::stable_sort(groups, before);
  int strongest = 0;
  for (const Group& group : groups)
    if (group.rule->role == Role::kRoot) strongest = std::max(strongest, group.rule->strength);
  bool effects = false;
  for (const Group& group : groups) {
    const DoctorFinding f = finding_of(evidence, group, is_confirmed(groups, group));
    if (group.rule->role == Role::kPerf) {
      report.slow.push_back(f);
    } else if (group.rule->role == Role::kRoot && report.roots.size() < kMostRoots &&
               !(group.rule->strength == 1 && strongest > 1)) {
      report.roots.push_back(f);
    } else {
      report.folded.push_back(f);
      effects = effects || group.rule->role == Role::kCascade || group.rule->role == Role::kTeardown;
    }
  }
  split_ranks(groups, report);
  add_unknown(evidence, report);
  const bool worse = std::ranges::any_of(report.unknown, [](const auto& u) { return u.severity != "warning"; });
  if ((effects || worse) && report.roots.empty()) {
    report.next = next_of(evidence, groups);
    report.peer = closed_peer(evidence, groups);
  }
  add_damaged(evidence, report);
  for (const std::string& file : evidence.tables())
    report.notes.push_back(
        fmt::format("{} has a table of measured collectives: weft check {} says whether it is slow", file, file));
  report.tables = !evidence.tables().empty();
  report.troubled = !report.roots.empty() || !report.unknown.empty() || effects || !report.damaged.empty();
  report.verdict = verdict_of(report);
  return report;
}

}  // namespace weft::doctor
