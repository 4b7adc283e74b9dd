#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "apps/launch/labelled_output.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::launch {

// Two pipes per rank of this host, in the place of its stdout and stderr. A thread of the parent writes their lines
// whole, with the rank in front.
class LabelledPipes {
 public:
  // Errors (kSystem): too few descriptors.
  static Result<std::unique_ptr<LabelledPipes>> open(Rank ranks);
  ~LabelledPipes() { finish(); }

  // In the rank's process: its stdout and stderr are the pipes from now on.
  void take(Rank rank);
  // In the parent, when all ranks have been forked.
  void start();
  // In the parent, when all ranks have ended: returns when nothing is left in the pipes. What processes that ranks have
  // left behind still write is waited for at most kDrain.
  void finish();

 private:
  struct Pipe {
    Rank rank = 0;
    FrameKind kind = FrameKind::kOutput;
    UniqueFd from, to;
  };
  explicit LabelledPipes(Rank ranks) : output_(true, ranks) {}

  bool pump();
  void read_from(Pipe& pipe);
  static void write_all(PendingBytes& bytes, int fd);

  LabelledOutput output_;
  std::vector<Pipe> pipes_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace weft::launch
