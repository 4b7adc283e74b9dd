#pragma once

#include <memory>
#include <string>

#include "api/calibrate/calibrate.h"
#include "base/env.h"
#include "net/bootstrap/job.h"
#include "net/mixed/mixed.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"
#include "plan/cost/machine_view.h"
#include "plan/protocol/capabilities.h"
#include "weft/communicator.h"

namespace weft::api {

// What the fabric of this name can do: shm, threads, tcp, ucx, shm+tcp, shm+ucx. `transport` outlives the answer.
protocol::Capabilities capabilities_of(const std::string& transport);

// A rank of a job, and what carries its messages.
struct Joined {
  Communicator comm;
  std::string transport;
  std::shared_ptr<const cost::MachineView> machine;  // what it chooses by
  net::shm::World* shm = nullptr;                    // of transport shm; lives as long as `comm`
  net::messages::World* messages = nullptr;          // of transports tcp and ucx; likewise
  net::mixed::World* mixed = nullptr;                // of transports shm+tcp and shm+ucx; likewise
};

// Joins a job of processes: over shared memory within a machine and TCP across, unless `transport` says otherwise (see
// env::check_transport). `rates` must be the same on all ranks. Errors: see net::shm::attach and net::bootstrap::meet.
Result<Joined> join(const env::Settings& settings, const net::bootstrap::Job& job, const std::string& transport,
                    const calibrate::Rates& rates);

// All ranks of a job of threads.
Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings, const calibrate::Rates& rates,
                                               std::shared_ptr<const cost::MachineView> machine);

}  // namespace weft::api
