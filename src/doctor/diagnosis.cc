#include "doctor/diagnosis.h"

#include <algorithm>

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
  std::string first;  // time; empty: none of them has one
};

std::vector<Group> groups_of(const Evidence& evidence) {
  std::map<std::size_t, Group> by_rule;
  for (const Fact& fact : evidence.facts()) {
    Group& group = by_rule[fact.rule];
    group.rule = &evidence.rules()[fact.rule];
    group.facts.push_back(&fact);
    if (!fact.time.empty() && (group.first.empty() || fact.time < group.first)) group.first = fact.time;
  }
  std::vector<Group> groups;
  for (auto& [rule, group] : by_rule) groups.push_back(std::move(group));
  return groups;
}

// Roots without a time stand behind those with one.
bool before(const Group& a, const Group& b) {
  if (a.rule->strength != b.rule->strength) return a.rule->strength > b.rule->strength;
  if (a.first.empty() != b.first.empty()) return b.first.empty();
  if (a.first != b.first) return a.first < b.first;
  return a.facts.size() > b.facts.size();
}

DoctorFinding finding_of(const Group& group, bool second_source) {
  const Rule& rule = *group.rule;
  DoctorFinding f{.id = rule.id,
                  .finding = rule.finding,
                  .role = std::string(name(rule.role)),
                  .facts = group.facts.size(),
                  .remedy = rule.remedy,
                  .verify = rule.verify,
                  .refuted = rule.refuted,
                  .versions = rule.versions};
  f.confidence = rule.strength >= kNamesCause || second_source ? "confirmed" : "suspected";
  std::map<std::string, int> peers;
  for (const Fact* fact : group.facts) {
    if (fact->rank >= 0 && std::ranges::find(f.ranks, fact->rank) == f.ranks.end()) f.ranks.push_back(fact->rank);
    if (!fact->peer.empty()) ++peers[fact->peer];
    if (f.evidence.size() < kMostEvidence)
      f.evidence.push_back({fact->file, fact->text, fact->host, fact->time, fact->line, fact->rank});
  }
  std::ranges::sort(f.ranks);
  // The peer that others name is nearer to the cause than the ranks that complain.
  if (!peers.empty()) f.peer = std::ranges::max_element(peers, {}, [](const auto& p) { return p.second; })->first;
  return f;
}

bool sources_differ(const std::vector<Group>& groups, const Group& root) {
  for (const Group& other : groups)
    if ((other.rule->role == Role::kConfirm || (other.rule->role == Role::kRoot && &other != &root)) &&
        other.facts.front()->source != root.facts.front()->source)
      return true;
  return false;
}

std::string next_of(const Evidence& evidence, bool effects_only) {
  if (!effects_only) return "";
  std::string text =
      "not enough evidence: set NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV ";
  if (!evidence.has_recorder())
    text += "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=fr_rank_ ";
  text += "and run again; bring dmesg of all hosts";
  if (evidence.watchdog_sequence >= 0)
    text += fmt::format("; the smallest SeqNum in a watchdog's line is {}{}", evidence.watchdog_sequence,
                        evidence.watchdog_rank >= 0 ? fmt::format(", of rank {}", evidence.watchdog_rank) : "");
  return text;
}

}  // namespace

DoctorReport diagnose(const Evidence& evidence) {
  DoctorReport report{.files = static_cast<std::int64_t>(evidence.files()),
                      .lines = evidence.lines(),
                      .not_understood = evidence.not_understood(),
                      .left_out = evidence.left_out()};
  std::vector<Group> groups = groups_of(evidence);
  std::ranges::stable_sort(groups, before);
  int strongest = 0;
  for (const Group& group : groups)
    if (group.rule->role == Role::kRoot) strongest = std::max(strongest, group.rule->strength);
  bool effects = false;
  for (const Group& group : groups) {
    const DoctorFinding f = finding_of(group, sources_differ(groups, group));
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
  report.next = next_of(evidence, effects && report.roots.empty());
  if (!report.roots.empty()) {
    const DoctorFinding& first = report.roots.front();
    report.verdict = fmt::format("{} ({}{})", first.finding, first.confidence,
                                 first.peer.empty()
                                     ? first.ranks.empty() ? "" : fmt::format(", rank {}", fmt::join(first.ranks, " "))
                                     : fmt::format(", peer {}", first.peer));
  } else if (!report.next.empty()) {
    report.verdict = "Something ended this job, and its cause is not in the evidence";
  } else if (!report.slow.empty()) {
    report.verdict = fmt::format("No fault; {} slow path{} or setting{}", report.slow.size(),
                                 report.slow.size() == 1 ? "" : "s", report.slow.size() == 1 ? "" : "s");
  } else {
    report.verdict = "No fault found";
  }
  return report;
}

}  // namespace weft::doctor
