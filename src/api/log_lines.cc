#include "api/log_lines.h"

#include <algorithm>

#include "base/text.h"
#include "plan/schedule/element.h"

namespace weft::api {
namespace {

std::string text_of(const schedule::Plan& plan) {
  return fmt::format("{} {} x{}", plan.algorithm->name, protocol::traits(plan.protocol).name, plan.channels);
}

}  // namespace

Result<std::shared_ptr<const Log>> open_log(const env::Settings& settings, Rank rank) {
  WEFT_TRY(auto log, Log::open(settings.log, rank));
  for (const std::string& line : settings.nccl_understood) log->info(LogPart::kInit, "{}", line);
  for (const std::string& line : settings.nccl_ignored) log->warn(LogPart::kInit, "{}", line);
  return log;
}

void log_job(const Log& log, const net::bootstrap::Job& job) {
  if (!log.writes(LogLevel::kInfo, LogPart::kInit)) return;
  const std::string place = !job.local_name.empty() ? "shared memory " + job.local_name.substr(0, 8) + "…"
                            : job.id                ? job.id->addresses[0].text()
                            : !job.file.empty()     ? job.file
                                                    : "no place";
  log.info(LogPart::kInit, "rank {} of {}, started by {}; the ranks meet at {}{}", job.rank, job.ranks, job.launcher,
           place, job.guarded ? "" : ", without a key");
}

void log_meeting(const Log& log, const env::Settings& settings, const net::bootstrap::Meeting& meeting, Rank rank,
                 const std::string& within, const std::string& across) {
  const auto& own = meeting.ranks[static_cast<std::size_t>(rank)];
  for (const std::string& line : net::link::missing_interfaces(settings.interface)) log.warn(LogPart::kNet, "{}", line);
  if (log.writes(LogLevel::kInfo, LogPart::kNet))
    for (const std::string& line : net::link::describe_interfaces(settings.interface, own.all_rails()))
      log.info(LogPart::kNet, "{}", line);
  if (!log.writes(LogLevel::kInfo, LogPart::kPath)) return;
  for (const auto& r : meeting.ranks) {
    if (r.rank == rank) continue;
    const bool here = r.node == own.node;
    log.info(LogPart::kPath, "to rank {}: {}, {}{}", r.rank, here ? within : across, r.text(),
             here ? ", on this machine" : "");
  }
}

void log_choice(const Log& log, const cost::MachineView& machine, const tune::Question& question,
                const tune::Candidate& chosen) {
  if (!log.writes(LogLevel::kInfo, LogPart::kPlan)) return;
  const schedule::Task& task = question.task;
  std::string line = fmt::format("{} of {} on {} ranks: {}, {}", schedule::name(task.collective),
                                 format_bytes(task.elements * task.element_bytes), task.ranks, text_of(chosen.plan),
                                 format_duration(chosen.estimate.total));
  tune::Question free = question;
  free.algorithm.clear();
  free.protocol.clear();
  free.channels = 0;
  if (!question.algorithm.empty() || !question.protocol.empty() || question.channels != 0) line += ", forced";
  if (const auto all = tune::candidates(machine, free)) {
    const auto second = std::find_if(all->begin(), all->end(), [&](const tune::Candidate& c) {
      return c.possible && !(c.plan.algorithm == chosen.plan.algorithm && c.plan.protocol == chosen.plan.protocol);
    });
    line += second == all->end()
                ? "; nothing else can serve"
                : fmt::format("; next {}, {}", text_of(second->plan), format_duration(second->estimate.total));
  }
  log.info(LogPart::kPlan, "{}", line);
}

}  // namespace weft::api
