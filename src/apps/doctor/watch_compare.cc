#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "apps/doctor/watch.h"
#include "base/text.h"
#include "exec/recorder/diagnosis.h"
#include "plan/schedule/collective.h"

namespace weft::doctor {
namespace {

using recorder::Snapshot;
using recorder::Standing;
using report::WatchReport;

constexpr double kIdle = 0.1;          // of a fair share
constexpr double kSlow = 0.7;          // of the median of the other NICs
constexpr double kLeastTraffic = 1e6;  // bytes per second of all NICs, below which shares say nothing
constexpr double kUnexplained = 0.5;   // of what calls must send
constexpr double kFull = 0.95;         // of cores, of memory

std::string rate_text(double bytes_per_second) { return format_rate(BytesPerSecond(bytes_per_second)); }

// Bytes that leave each host, at least, per byte of message: with the ranks spread evenly over `hosts`.
double leaving(const std::string& collective, Rank ranks, Rank here) {
  const auto known = schedule::parse_collective(collective);
  const Rank hosts = (ranks + here - 1) / here;
  if (!known || hosts < 2) return 0;
  const double parts = schedule::even_form(*known) == Collective::kAllToAll ? here : 1;
  return schedule::bus_factor(*known, hosts) * parts;
}

const Snapshot* same_rank(const std::vector<Snapshot>& all, const Snapshot& s) {
  const auto at = std::ranges::find_if(all, [&](const Snapshot& o) {
    return std::tie(o.pid, o.job, o.group, o.rank) == std::tie(s.pid, s.job, s.group, s.rank);
  });
  return at == all.end() ? nullptr : &*at;
}

// The sum of a rank's calls between two looks, by collective.
struct Moved {
  double calls = 0, seconds = 0;
  std::map<std::string, double> bytes;
};
Moved moved(const Snapshot* before, const Snapshot& after) {
  Moved m;
  for (std::size_t i = 0; i < after.sums.size(); ++i) {
    const recorder::Sum none, &now = after.sums[i];
    const recorder::Sum& then = before != nullptr && i < before->sums.size() ? before->sums[i] : none;
    m.calls += static_cast<double>(now.calls - then.calls);
    m.seconds += now.seconds - then.seconds;
    m.bytes[now.collective] += now.bytes - then.bytes;
  }
  return m;
}

WatchReport::Job job_of(const Standing& s, const Sample& before, double seconds) {
  WatchReport::Job job{
      .job = s.job, .communicator = s.group, .transport = s.transport, .ranks = static_cast<int>(s.ranks.size())};
  std::map<std::string, double> most;  // all ranks make the same calls, and some are ahead
  for (const Snapshot* rank : s.ranks) {
    if (rank == nullptr) continue;
    ++job.here;
    const Moved m = moved(same_rank(before.ranks, *rank), *rank);
    job.calls += m.calls / seconds;
    job.in_calls += m.seconds / seconds;
    for (const auto& [collective, bytes] : m.bytes) most[collective] = std::max(most[collective], bytes);
  }
  if (job.here == 0) return job;
  job.calls /= job.here;
  job.in_calls = std::min(1.0, job.in_calls / job.here);
  for (const auto& [collective, bytes] : most) {
    job.message_bytes += bytes / seconds;
    job.leaves += bytes / seconds * leaving(collective, job.ranks, job.here);
  }
  for (const recorder::Late& l : s.late)
    job.late.push_back(fmt::format("rank {} keeps {} waiting: {}", l.rank,
                                   l.behind == 1 ? "1 rank" : fmt::format("{} ranks", l.behind), l.why));
  return job;
}

std::vector<std::string> rising(const NicCounters& before, const NicCounters& after) {
  std::vector<std::string> all;
  for (const auto& [name, value] : after.troubles)
    if (const auto then = before.troubles.find(name); then != before.troubles.end() && value > then->second)
      all.push_back(fmt::format("{} +{:.0f}", name, value - then->second));
  return all;
}

// NICs of one kind and one line rate: a job spreads what it sends evenly over them.
using Group = std::vector<WatchReport::Nic*>;

double both_ways(const WatchReport::Nic& n) { return n.sent + n.received; }

void judge(const Group& group, double leaves, std::vector<WatchReport::Finding>& findings) {
  double all = 0;
  for (const auto* n : group) all += both_ways(*n);
  for (auto* n : group) {
    n->fair_share = 1.0 / static_cast<double>(group.size());
    n->share = all > 0 ? both_ways(*n) / all : 0;
  }
  if (group.size() < 2 || all < kLeastTraffic) return;
  std::vector<double> sorted;
  for (const auto* n : group) sorted.push_back(both_ways(*n));
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  for (const auto* n : group) {
    const bool idle = n->share < kIdle * n->fair_share;
    if (!idle && both_ways(*n) >= kSlow * median) continue;
    std::string text = fmt::format("{:.1f} % of what {} NICs like it move; {:.1f} % are its share", 100 * n->share,
                                   group.size(), 100 * n->fair_share);
    if (leaves > 0)
      text += fmt::format(": at least {} by the calls, {} sent", rate_text(leaves * n->fair_share), rate_text(n->sent));
    findings.push_back({.what = idle ? "NIC idle" : "NIC slow", .part = n->name, .text = std::move(text)});
  }
}

void add_nics(const Sample& before, const Sample& after, double seconds, WatchReport& r) {
  std::map<std::pair<bool, double>, std::vector<std::size_t>> groups;
  for (const NicCounters& now : after.nics) {
    const auto then = std::ranges::find(before.nics, now.name, &NicCounters::name);
    if (then == before.nics.end()) continue;
    groups[{now.rdma, now.line_rate}].push_back(r.nics.size());
    r.nics.push_back({.name = now.name,
                      .line_rate = now.line_rate,
                      .sent = std::max(0.0, now.sent - then->sent) / seconds,
                      .received = std::max(0.0, now.received - then->received) / seconds,
                      .rising = rising(*then, now)});
    r.sent += r.nics.back().sent;
    r.received += r.nics.back().received;
  }
  // The job's network is the group that carries most.
  Group busiest;
  double most = -1;
  for (const auto& [kind, members] : groups) {
    Group group;
    double all = 0;
    for (const std::size_t i : members) group.push_back(&r.nics[i]), all += both_ways(r.nics[i]);
    std::vector<WatchReport::Finding> none;
    judge(group, 0, none);
    if (all > most) most = all, busiest = group;
  }
  judge(busiest, r.leaves, r.findings);
  for (const auto& n : r.nics)
    if (!n.rising.empty())
      r.findings.push_back(
          {.what = "NIC counts trouble", .part = n.name, .text = fmt::format("{}", fmt::join(n.rising, ", "))});
}

void add_gpus(const Sample& before, const Sample& after, double seconds, WatchReport& r) {
  double busiest = 0;
  for (const GpuCounters& now : after.gpus) {
    r.gpus.push_back(now.now);
    busiest = std::max(busiest, now.now.busy);
    for (const GpuCounters& then : before.gpus)
      if (then.now.index == now.now.index) {
        r.gpus.back().nvlink_sent = std::max(0.0, now.nvlink_sent - then.nvlink_sent) / seconds;
        r.gpus.back().nvlink_received = std::max(0.0, now.nvlink_received - then.nvlink_received) / seconds;
      }
  }
  for (const auto& g : r.gpus)
    if (busiest > 0.5 && g.busy < 0.05)
      r.findings.push_back(
          {.what = "GPU idle",
           .part = fmt::format("GPU {}", g.index),
           .text = fmt::format("{:.0f} % busy where another is {:.0f} % busy", 100 * g.busy, 100 * busiest)});
}

void judge_machine(WatchReport& r) {
  if (r.leaves > kLeastTraffic && r.sent + r.loopback < kUnexplained * r.leaves)
    r.findings.push_back(
        {.what = "Traffic not on these NICs",
         .part = "network",
         .text = fmt::format("calls must send at least {}, and the NICs sent {}: calls under way count "
                             "when they end, or another device carries them",
                             rate_text(r.leaves), rate_text(r.sent))});
  if (r.cpu_busy > kFull)
    r.findings.push_back(
        {.what = "Cores full",
         .part = "CPU",
         .text = fmt::format("{:.0f} % of {} cores: ranks that poll share them", 100 * r.cpu_busy, r.cores)});
  if (r.memory_used > kFull)
    r.findings.push_back(
        {.what = "Memory full", .part = "memory", .text = fmt::format("{:.0f} % used", 100 * r.memory_used)});
  for (const auto& j : r.jobs)
    for (const std::string& late : j.late)
      r.findings.push_back({.what = "Rank late", .part = j.job + " " + j.communicator, .text = late});
}

}  // namespace

WatchReport compare(const Sample& before, const Sample& after) {
  WatchReport r{.seconds = after.at - before.at, .memory_used = after.memory_used, .cores = after.cores};
  const double seconds = r.seconds;
  for (const Standing& s : recorder::standings(after.ranks)) {
    r.jobs.push_back(job_of(s, before, seconds));
    r.leaves += r.jobs.back().leaves;
  }
  r.loopback = std::max(0.0, after.loopback - before.loopback) / seconds;
  add_nics(before, after, seconds, r);
  add_gpus(before, after, seconds, r);
  if (after.cpu_all > before.cpu_all)
    r.cpu_busy = (after.cpu_busy - before.cpu_busy) / (after.cpu_all - before.cpu_all);
  judge_machine(r);
  return r;
}

}  // namespace weft::doctor
