#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "api/session/session.h"
#include "net/memory/wait_policy.h"

namespace weft::tests {

// Chooses what the request forces; otherwise the collective's ring, Simple (Direct for load/store algorithms), one
// channel. Load/store algorithms are staged where peers do not reach the buffers, or always.
session::Chooser forcing_chooser(bool always_staged = false);

// Limits for tests: a minute, because machines may be busy; few spins where ranks outnumber cores.
net::memory::WaitPolicy::Limits patient(Rank ranks);

// Communicators of all ranks of one process.
std::vector<Communicator> thread_communicators(Rank ranks, net::memory::WaitPolicy::Limits limits,
                                               const session::Chooser& chooser = forcing_chooser());
inline std::vector<Communicator> thread_communicators(Rank ranks) {
  return thread_communicators(ranks, patient(ranks));
}

// This process's communicator in the job `id` of processes that share memory. Errors: see net::shm::attach.
Result<Communicator> shm_communicator(const std::string& id, Rank rank, Rank ranks, std::chrono::milliseconds timeout);

// Runs each rank's body on a thread of its own. Each communicator is destroyed when its own body has ended, as in a
// program whose ranks do not end together.
void on_threads(std::vector<Communicator> ranks, const std::function<void(Communicator&)>& body);

}  // namespace weft::tests
