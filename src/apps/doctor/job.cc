#include "apps/doctor/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/counted.h"

namespace weft::doctor {
namespace {

constexpr std::size_t kMostMembers = 100'000, kMostRanksNamed = 16;

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

std::string_view behind(std::string_view text, std::string_view word, std::string_view until = " ,") {
  const auto at = text.find(word);
  if (at == std::string_view::npos) return {};
  const auto rest = text.substr(at + word.size());
  return rest.substr(0, rest.find_first_of(until));
}

// Variables that have to be equal on all ranks: others may follow the host, as NCCL_SOCKET_IFNAME.
constexpr std::string_view kEqual[] = {"NCCL_ALGO",          "NCCL_PROTO",         "NCCL_MIN_NCHANNELS",
                                       "NCCL_MAX_NCHANNELS", "NCCL_NTHREADS",      "NCCL_BUFFSIZE",
                                       "NCCL_P2P_DISABLE",   "NCCL_SHM_DISABLE",   "NCCL_NVLS_ENABLE",
                                       "NCCL_IB_DISABLE",    "NCCL_NET",           "NCCL_P2P_NET_CHUNKSIZE",
                                       "NCCL_CROSS_NIC",     "NCCL_COLLNET_ENABLE"};

std::string address(std::string_view text) { return std::string(text.substr(0, text.find('<'))); }

}  // namespace

const std::vector<std::string_view>& Job::words() {
  static const std::vector<std::string_view> kWords = {
      " nranks ",       "NCCL version ", " set by environment to ", "NET/IB : Using",
      "Using network ", "Bootstrap",     "NET/Socket : Using",      "SeqNum=",
      "Init COMPLETE",  "last enqueued", "WorkNCCL(OpType="};
  return kWords;
}

void Job::line(const Line& line, const Process& process, const std::string& file, int number) {
  const std::string_view text = line.text;
  if (has(text, "SeqNum=") || has(text, "last enqueued") || has(text, "WorkNCCL(OpType="))
    return watchdog(line, file, number);
  if (process.key.empty() || (members_.size() >= kMostMembers && !members_.contains(process.key))) return;
  Member& m = members_[process.key];
  m.host = process.host;
  const Said said{std::string(text), file, number};
  if (const int ranks = number_behind(text, " nranks "); ranks > 0) {
    const int rank = number_behind(text, " rank ");
    if (ranks >= m.ranks && rank >= 0) m.rank = rank, m.ranks = ranks;
    const bool complete = has(text, "Init COMPLETE");
    m.started = true, m.complete = m.complete || complete;
    if (const auto id = behind(text, "commId "); rank == 0 && !id.empty())
      first_processes_[std::string(id)].insert(process.key);
  }
  // "NCCL version 2.21.5+cuda12.4"
  if (const auto version = behind(text, "NCCL version "); !version.empty() && number_at(version, 0) >= 0)
    m.values.try_emplace("NCCL version", Said{std::string(version.substr(0, version.find('+'))), file, number});
  if (const auto network = behind(text, "Using network "); !network.empty())
    m.values.try_emplace("network",
                         Said{network == "Socket" ? "Socket" : "RDMA", file, number});  // plugins have many names
  if (const auto at = text.find(" set by environment to "); at != std::string_view::npos) {
    const auto begin = text.rfind(' ', at - 1);
    const std::string name(text.substr(begin + 1, at - begin - 1));
    std::string_view value = text.substr(at + 23);
    while (!value.empty() && (value.back() == '.' || value.back() == ' ')) value.remove_suffix(1);
    if (std::ranges::find(kEqual, name) != std::end(kEqual))
      m.values.try_emplace(name, Said{std::string(value), file, number});
  }
  // "Bootstrap: Using eth0:10.0.0.7<0>"
  for (const std::string_view word : {"Bootstrap : Using ", "Bootstrap: Using ", "OOB "})
    if (const auto where = behind(text, word); has(where, ":"))
      hosts_.try_emplace(address(where.substr(where.find(':') + 1)), process.host);
  if (has(text, "NET/IB : Using")) {
    const auto list = text.substr(text.find("NET/IB : Using"));
    int nics = 0;
    for (std::size_t at = 0; (at = list.find(":1/", at)) != std::string_view::npos; ++at) ++nics;
    if (nics > 0) nics_.try_emplace(std::string(process.host), nics, said);
  }
}

void Job::watchdog(const Line& line, const std::string& file, int number) {
  const std::string_view text = line.text;
  Timeout t{.rank = line.rank,
            .sequence = number_behind(text, "SeqNum="),
            .elements = number_behind(text, "NumelIn="),
            .operation = std::string(behind(text, "OpType=", ",)")),
            .said = {std::string(text), file, number}};
  for (const std::string_view word : {"[Rank ", "[rank", "Rank "})
    if (t.rank < 0) t.rank = number_behind(text, word);
  // "last enqueued NCCL work: 8, last completed NCCL work: 7"; newer: "last enqueued work: 8".
  for (const std::string_view kind : {" NCCL work: ", " work: "}) {
    if (t.enqueued < 0) t.enqueued = number_behind(text, fmt::format("last enqueued{}", kind));
    if (t.completed < 0) t.completed = number_behind(text, fmt::format("last completed{}", kind));
  }
  if (t.sequence < 0 && t.enqueued < 0 && t.operation.empty()) return;
  if (t.sequence >= 0 && (watchdog_sequence < 0 || t.sequence < watchdog_sequence))
    watchdog_sequence = t.sequence, watchdog_rank = t.rank;
  // Groups have sequence numbers of their own: those of the group of all ranks are compared, and those whose GUID says
  // which ranks they are of.
  std::string group(behind(text, "PG GUID ", " ,]"));
  if (group.empty()) group = behind(text, "PG ID ", " ,]");
  if (group.empty()) group = behind(text, "[PG ", " ,]");
  if (group.empty()) group = "0";
  if (t.rank < 0) return;
  if (t.sequence >= 0)
    timeouts_[group].try_emplace(t.rank, t);
  else if (t.enqueued < 0)  // PyTorch before 1.13 wrote no numbers
    unnumbered_.try_emplace(t.rank, t);
  if (t.enqueued >= 0 || t.completed >= 0) progress_[group].try_emplace(t.rank, t);
}

int Job::rank_of(const std::string& process) const {
  const auto at = members_.find(process);
  return at == members_.end() ? -1 : at->second.rank;
}

std::string Job::host_of(const std::string& peer) const {
  const auto at = hosts_.find(address(peer));
  return at == hosts_.end() ? "" : at->second;
}

std::string Job::mixed() const {
  // One communicator id has one rank 0. A job has many communicators, but one with all ranks, whose rank 0 stays.
  std::set<std::string> firsts;
  int most = 0;
  for (const auto& [key, m] : members_) most = std::max(most, m.ranks);
  for (const auto& [key, m] : members_)
    if (m.ranks == most && most > 1 && m.rank == 0 && m.complete) firsts.insert(key);
  if (firsts.size() < 2) return "";
  return fmt::format("logs of {} jobs or attempts are mixed here: rank 0 of {} is {}; findings may be of any of them",
                     firsts.size(), most, fmt::join(firsts, " and "));
}

std::string Job::missing() const {
  int most = 0;
  std::set<int> seen;
  for (const auto& [key, m] : members_) most = std::max(most, m.ranks);
  for (const auto& [key, m] : members_)
    if (m.rank >= 0) seen.insert(m.rank);
  for (const auto& [group, ranks] : timeouts_)
    for (const auto& [rank, t] : ranks) seen.insert(rank);
  std::vector<int> absent;
  for (int rank = 0; rank < most && absent.size() <= kMostRanksNamed; ++rank)
    if (!seen.contains(rank)) absent.push_back(rank);
  if (absent.empty() || absent.size() > kMostRanksNamed || 2 * absent.size() > static_cast<std::size_t>(most))
    return "";
  return fmt::format("no line is of {} {}", plural(absent.size(), "rank"), fmt::join(absent, " "));
}

// The processes that say another value than most.
void Job::compare(const std::string& value, std::string_view id, bool unset_differs, const Finder& found) const {
  std::map<std::string, int> votes;
  for (const auto& [key, m] : members_) {
    const auto at = m.values.find(value);
    if (at != m.values.end())
      ++votes[at->second.text];
    else if (unset_differs && m.started && m.values.contains("network"))
      ++votes[""];
  }
  if (votes.size() < 2) return;
  const auto best = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; });
  const bool tie = std::ranges::count(votes, best->second, [](const auto& v) { return v.second; }) > 1;
  for (const auto& [key, m] : members_) {
    const auto at = m.values.find(value);
    if (at == m.values.end() || (at->second.text == best->first && !tie)) continue;
    std::vector<std::string> others;
    for (const auto& [text, n] : votes)
      if (text != at->second.text) others.push_back(text.empty() ? "not set" : text);
    found(id, {.file = at->second.file,
               .text = fmt::format("{} is {} here and {} elsewhere", value, at->second.text, fmt::join(others, ", ")),
               .host = m.host,
               .source = "nccl",
               .line = at->second.line,
               .rank = m.rank,
               .process = key});
  }
}

void Job::compare_nics(const Finder& found) const {
  int least = 0, most = 0;
  for (const auto& [host, nics] : nics_) {
    least = least == 0 ? nics.first : std::min(least, nics.first);
    most = std::max(most, nics.first);
  }
  if (least == most) return;
  for (const auto& [host, nics] : nics_)
    if (nics.first < most)
      found("F006", {.file = nics.second.file,
                     .text = fmt::format("host {} uses {} NICs, others {}", host, nics.first, most),
                     .host = host,
                     .source = "nccl",
                     .line = nics.second.line});
}

// Ranks whose watchdogs name another operation (or size) than most. With as many of each, all are named.
bool Job::differing(const std::map<int, Timeout>& ranks, std::string_view id, const char* what,
                    const TimeoutValue& value, const Finder& found) {
  std::map<std::string, int> votes;
  for (const auto& [rank, t] : ranks) ++votes[value(t)];
  if (votes.size() < 2) return false;
  const auto best = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; });
  const bool tie = std::ranges::count(votes, best->second, [](const auto& v) { return v.second; }) > 1;
  const auto others = [&](int self) {
    if (!tie) return "others with " + best->first;
    std::vector<std::string> list;
    for (const auto& [rank, t] : ranks)
      if (rank != self && list.size() < kMostRanksNamed) list.push_back(fmt::format("rank {} with {}", rank, value(t)));
    return fmt::format("{}", fmt::join(list, ", "));
  };
  for (const auto& [rank, t] : ranks)
    if (tie || value(t) != best->first)
      found(id, {.file = t.said.file,
                 .text = fmt::format("rank {} waits{} with {} {}, {}", rank,
                                     t.sequence < 0 ? "" : fmt::format(" in call {}", t.sequence), what, value(t),
                                     others(rank)),
                 .source = "pytorch",
                 .line = t.said.line,
                 .rank = rank});
  return true;
}

// Ranks of one group that wait in the same call for different collectives, or in different calls. `said`: ranks' counts
// of calls have said already who is behind.
void Job::compare_timeouts(bool said, const Finder& found) const {
  const auto operation_of = [](const Timeout& t) { return t.operation; };
  if (timeouts_.empty()) differing(unnumbered_, "F065", "operation", operation_of, found);
  for (const auto& [group, ranks] : timeouts_) {
    const bool whole = group == "0" || group.starts_with("0(") || group.find('(') != std::string::npos;
    if (ranks.size() < 2 || !whole) continue;
    const bool one_call =
        std::ranges::all_of(ranks, [&](const auto& r) { return r.second.sequence == ranks.begin()->second.sequence; });
    if (!one_call) {
      lagging(ranks, said, found);
      continue;
    }
    if (differing(ranks, "F065", "operation", operation_of, found)) continue;
    const std::string& operation = ranks.begin()->second.operation;
    if (operation == "ALLREDUCE" || operation == "_REDUCE_SCATTER_BASE" || operation == "_ALLGATHER_BASE")
      differing(
          ranks, "F066", "elements", [](const Timeout& t) { return std::to_string(t.elements); }, found);
  }
}

// Not more ranks behind than ahead: they hang in a call that the others have left, or are lost.
void Job::lagging(const std::map<int, Timeout>& ranks, bool said, const Finder& found) {
  std::map<std::int64_t, int> votes;
  for (const auto& [rank, t] : ranks) ++votes[t.sequence];
  const auto best = std::ranges::max_element(
      votes, [](const auto& a, const auto& b) { return std::pair(a.second, a.first) < std::pair(b.second, b.first); });
  const std::size_t ahead = 2 * static_cast<std::size_t>(best->second);
  if (ahead < ranks.size() || (said && ahead == ranks.size())) return;
  for (const auto& [rank, t] : ranks)
    if (t.sequence < best->first)
      found("W01", {.file = t.said.file,
                    .text = fmt::format("rank {} waits in call {} ({}), {} in call {}", rank, t.sequence, t.operation,
                                        counted(best->second, "rank"), best->first),
                    .source = "pytorch",
                    .line = t.said.line,
                    .rank = rank});
}

// Ranks that have called less than the others when the timeout came, else those that have completed less: they are
// late, or hang in a call that the others have left behind.
bool Job::compare_progress(const std::string& group, const Finder& found) const {
  const auto at = progress_.find(group);
  if (at == progress_.end() || at->second.size() < 2) return false;
  const auto& ranks = at->second;
  const auto behind_in = [&](const char* what, const auto& count, bool halves) {
    std::int64_t most = -1;
    std::size_t behind = 0;
    for (const auto& [rank, t] : ranks) most = std::max(most, count(t));
    for (const auto& [rank, t] : ranks)
      if (count(t) >= 0 && count(t) < most) ++behind;
    if (behind == 0 || (halves ? 2 * behind > ranks.size() : 2 * behind >= ranks.size())) return false;
    for (const auto& [rank, t] : ranks) {
      if (count(t) < 0 || count(t) >= most) continue;
      std::string where;
      for (const auto& [name, timeouts] : timeouts_)
        if (const auto own = timeouts.find(rank); own != timeouts.end() && !own->second.operation.empty())
          where = fmt::format("; it waits in call {}, {}", own->second.sequence, own->second.operation);
      found("W01", {.file = t.said.file,
                    .text = fmt::format("rank {} has {} {} calls, {} others {}{}", rank, what, count(t),
                                        ranks.size() - behind, most, where),
                    .source = "pytorch",
                    .line = t.said.line,
                    .rank = rank});
    }
    return true;
  };
  return behind_in(
             "enqueued", [](const Timeout& t) { return t.enqueued; }, false) ||
         behind_in(
             "completed", [](const Timeout& t) { return t.completed; }, true);
}

void Job::absent(const Finder& found) const {
  int most = 0;
  for (const auto& [key, m] : members_) most = std::max(most, m.ranks);
  std::set<int> seen;
  const Member* last = nullptr;
  for (const auto& [key, m] : members_) {
    if (m.ranks != most || m.rank < 0) continue;
    if (m.complete) return;
    seen.insert(m.rank);
    last = &m;
  }
  if (last == nullptr || 2 * seen.size() <= static_cast<std::size_t>(most) ||
      seen.size() == static_cast<std::size_t>(most))
    return;
  for (int rank = 0; rank < most; ++rank)
    if (!seen.contains(rank))
      found("W03", {.file = "(no line)",
                    .text = fmt::format("rank {} of {} never began; {} others began and wait", rank, most, seen.size()),
                    .source = "nccl",
                    .rank = rank});
}

void Job::finish(const Finder& found) const {
  compare("NCCL version", "F004", false, found);
  compare("network", "W04", false, found);
  for (const std::string_view name : kEqual) compare(std::string(name), "F020", true, found);
  compare_nics(found);
  bool said = false;
  for (const auto& [group, ranks] : progress_) said = compare_progress(group, found) || said;
  compare_timeouts(said, found);
  absent(found);
}

}  // namespace weft::doctor
