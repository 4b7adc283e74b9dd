#pragma once

#include "tests/connected_job.h"
#include "tests/soak/episode.h"

namespace weft::soak {

// One rank's part of an episode: calls, and what it does when they fail.
class RankContext {
 public:
  static constexpr int kSpares = 2;  // ranks that wait to be taken in; they read places 1 … kSpares of the board

  // `board`: null where no rank can join.
  RankContext(const Episode& episode, Communicator world, tests::NoticeBoard* board)
      : episode_(episode), world_(std::move(world)), board_(board) {}

  // Every pair exchanges something, in the world and in the first subsets.
  Status meet();

  // "done CHECKED SHRUNK GROWN", "left" by one that the others went on without, or what was wrong.
  std::string report();
  // The same of a rank that joins at this place of the board.
  static std::string join(const Episode& episode, tests::NoticeBoard& board, int place, const ConnectOptions& options);

 private:
  Status make_subset();
  // Makes calls until they are all made, or one fails.
  Status call_on();
  Status one_call();
  // Goes on with who is left, takes a spare in, and agrees on what comes next.
  Status recover();
  Status take_spares_in();
  Status grow();
  // The ranks may have failed in different calls: the farthest counts.
  Status agree();

  const Episode& episode_;
  Communicator world_, subset_{nullptr};
  tests::NoticeBoard* board_;
  std::int64_t next_ = 0, checked_ = 0;
  std::int64_t shrunk_ = 0, joined_ = 0;
  std::string wrong_;
  bool left_ = false;  // the others went on without this rank
};

}  // namespace weft::soak
