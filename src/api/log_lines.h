#pragma once

#include <string>

#include "base/env.h"
#include "base/log.h"
#include "net/bootstrap/job.h"
#include "net/bootstrap/meeting.h"
#include "plan/tune/tune.h"

// Log lines (WEFT_DEBUG) about start-up and the choice of plans. Each costs a comparison where nothing is written.
namespace weft::api {

// The log of a rank. Its first lines are about NCCL_* names: those that are understood, at INFO; those that cannot be
// honoured, at WARN. Errors: of Log::open.
Result<std::shared_ptr<const Log>> open_log(const env::Settings& settings, Rank rank);

// Which rank of how many this is, by what launcher, and where the ranks meet.
void log_job(const Log& log, const net::bootstrap::Job& job);
// Interfaces, used or not, and how this rank reaches every other one.
void log_meeting(const Log& log, const env::Settings& settings, const net::bootstrap::Meeting& meeting, Rank rank,
                 const std::string& within, const std::string& across);
// The plan of the first call of its shape, and the fastest of the others; where options force the plan, of all others.
void log_choice(const Log& log, const cost::MachineView& machine, const tune::Question& question,
                const tune::Candidate& chosen);

}  // namespace weft::api
