#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/processes.h"
#include "weft/communicator.h"

namespace weft::tests {

// Where processes that one test forks leave unique ids for each other: shared memory, made before they are forked.
class NoticeBoard {
 public:
  static constexpr int kPlaces = 4;
  NoticeBoard();
  ~NoticeBoard();
  NoticeBoard(const NoticeBoard&) = delete;
  NoticeBoard& operator=(const NoticeBoard&) = delete;

  // `ranks`: how many will meet there.
  void post(int place, const UniqueId& id, Rank ranks = 0);
  Rank ranks(int place) const;      // after await
  UniqueId await(int place) const;  // waits until it has been posted
  // Waits until `ranks` processes have come here, this one included. Once.
  void gather(Rank ranks);

 private:
  struct Notices;
  Notices* notices_;
};

// Ranks as forked processes that meet through the public interface; all have met before a body begins, so that none
// reads in connect() of what another does (over UCX they may not have). Place 0 of the board is how they meet; bodies
// may use the others.
class ConnectedJob {
 public:
  using RankContext = std::function<std::string(Communicator&, Report&, NoticeBoard&)>;

  // If options.node is set, every two ranks say that they are on a machine of their own.
  ConnectedJob(Rank ranks, const ConnectOptions& options, const RankContext& context);

  Process& operator[](Rank r) { return processes_[static_cast<std::size_t>(r)]; }
  NoticeBoard& board() { return board_; }
  void await_running() {
    for (Process& p : processes_) p.await_word();
  }
  // What all ranks said at their end. Those whose number is in `killed` need not have ended well.
  std::vector<std::string> join(const std::vector<Rank>& killed = {});

 private:
  NoticeBoard board_;
  std::vector<Process> processes_;
};

// One all_reduce of int32 whose result is known: empty, or what was wrong.
std::string reduce_and_check(Communicator& comm, std::size_t elements = 1000);

}  // namespace weft::tests
