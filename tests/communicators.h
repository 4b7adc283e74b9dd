#pragma once

#include <functional>
#include <vector>

#include "net/memory/patience.h"
#include "session/session.h"

namespace weft::tests {

// Chooses what the request forces; otherwise the collective's ring, Simple (Direct for load/store algorithms), one
// channel. Load/store algorithms are staged where peers do not reach the buffers, or always.
session::Chooser forcing_chooser(bool always_staged = false);

// Limits for tests: a minute, because machines may be busy; few spins where ranks outnumber cores.
net::memory::Patience::Limits patient(Rank ranks);

// Communicators of all ranks of one process.
std::vector<Communicator> thread_communicators(Rank ranks, net::memory::Patience::Limits limits,
                                               bool always_staged = false);
inline std::vector<Communicator> thread_communicators(Rank ranks) {
  return thread_communicators(ranks, patient(ranks));
}

// Each rank's story on a thread of its own. Each communicator is destroyed when its own story has ended, as in a
// program whose ranks do not end together.
void on_threads(std::vector<Communicator> ranks, const std::function<void(Communicator&)>& story);

}  // namespace weft::tests
