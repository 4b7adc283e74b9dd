#pragma once

#include <memory>
#include <string>

#include "base/env.h"
#include "calibrate/calibrate.h"
#include "cost/machine_view.h"
#include "fabric/fabric.h"
#include "net/bootstrap/job.h"
#include "net/shm/shm.h"
#include "session/session.h"
#include "tune/tune.h"
#include "weft/communicator.h"

namespace weft::api {

// The question that a request on this machine's cores poses to the tuner.
tune::Question question_of(const schedule::Task& task, const Request& request, const protocol::Capabilities& can,
                           bool registered);
// What the fabric of this name can do: shm, threads, tcp. `transport` outlives the answer.
protocol::Capabilities capabilities_of(const std::string& transport);

// A forced name that nothing has is a mistake, not a wish that some calls cannot serve. Errors (bad input): WEFT_ALGO
// or WEFT_PROTO with its value.
Status check_forced(const env::Settings& settings);

// A rank of a job, and what carries its messages.
struct Joined {
  Communicator comm;
  std::string transport;
  std::shared_ptr<cost::MachineView> machine;  // what it chooses by
  session::Chooser chooser;
  net::memory::Patience::Limits limits;  // of transport shm
  net::shm::World* shm = nullptr;        // of transport shm; lives as long as `comm`
};

// How a communicator on this machine chooses. Copies take turns, so that threads may share the machine view.
session::Chooser chooser_of(std::shared_ptr<const cost::MachineView> machine, const env::Settings& settings);
net::memory::Patience::Limits limits_of(const env::Settings& settings, Rank ranks, const cost::MachineView& machine);
// What the environment says that this machine achieves. Errors (bad input): WEFT_RATES.
Result<calibrate::Rates> rates_of(const env::Settings& settings);

// Joins a job of processes: over shared memory if all are on this machine, else over TCP, unless `transport` forces
// one. `rates` must be the same on all ranks. Errors: see net::shm::attach and net::bootstrap::meet.
Result<Joined> join(const env::Settings& settings, const net::bootstrap::Job& job, const std::string& transport,
                    const calibrate::Rates& rates);

// All ranks of a job of threads.
Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings,
                                               std::shared_ptr<const cost::MachineView> machine);
Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings,
                                               const cost::MachineView& machine, const session::Chooser& chooser);

}  // namespace weft::api
