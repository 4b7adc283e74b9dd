#pragma once

#include <span>
#include <vector>

#include "weft/communicator.h"

namespace weft {

// Operations that are started together, on one or several communicators of this thread. All sends and receives of a
// communicator become one exchange, in which none can block another, whatever their order; it comes before the
// communicator's collectives, which follow in the order in which they were added; small ones of one kind become one
// call, see Communicator::start.
// Nothing happens before start() or run(). Owns: nothing; communicators and memory must stay valid until the operations
// have finished. Thread: one at a time; that of all its communicators.
class Group {
 public:
  void add(Communicator& comm, const Request& request) { of(comm).requests.push_back(request); }
  void add(Communicator& comm, const Transfer& transfer) { of(comm).transfers.push_back(transfer); }
  template <class T>
  void send(Communicator& comm, std::span<const T> data, Rank peer) {
    add(comm, Transfer{Transfer::Direction::kSend, peer, const_cast<T*>(data.data()), data.size(), data_type_of<T>()});
  }
  template <class T>
  void receive(Communicator& comm, std::span<T> data, Rank peer) {
    add(comm, Transfer{Transfer::Direction::kReceive, peer, data.data(), data.size(), data_type_of<T>()});
  }

  // Starts all that was added, and forgets it. Errors: as Communicator::start; then what came before is started.
  [[nodiscard]] Result<std::vector<Work>> start();
  // Starts all and waits until all have finished, moving on all communicators meanwhile: one thread may hold several
  // ranks of a communicator. Errors: the first of those of Communicator::run, after nothing runs any more.
  [[nodiscard]] Status run();

 private:
  struct Queue {
    Communicator* comm;
    std::vector<Transfer> transfers;
    std::vector<Request> requests;
  };
  Queue& of(Communicator& comm);
  std::vector<Queue> queues_;  // in the order of first use
};

}  // namespace weft
