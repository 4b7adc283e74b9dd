#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weft::launch {

constexpr std::chrono::seconds kGrace{5};         // from a signal that ends the job to SIGKILL
constexpr std::chrono::milliseconds kDrain{500};  // for output that processes of a rank that has ended still write
constexpr std::chrono::hours kMeetingTime{24};    // programs may take their time to come to the meeting place

// A variable in the environment of a rank's process.
using Setting = std::pair<std::string, std::string>;

// Blocks signals, so that they can be waited for; SIGCHLD is among them. The destructor gives back what was before.
class BlockedSignals {
 public:
  explicit BlockedSignals(std::initializer_list<int> signals);
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // The next signal, or 0 after a tenth of a second.
  int next() const;
  // Readable while one of them waits: see signalfd. Errors: kSystem.
  Result<int> descriptor() const;
  // The next signal of a descriptor(), or 0 if none waits.
  static int take(int descriptor);

 private:
  sigset_t set_{}, before_{};
};

// The ranks of a job that are children of this process. If this process dies, they die.
// With `groups` every rank has a process group of its own, so that a signal reaches what it has started, too; but not
// at a terminal, whose keys and input belong to one group.
class RankProcesses {
 public:
  struct Ended {
    Rank rank = 0;
    pid_t pid = 0;
    int status = 0;  // as of waitpid

    int code() const;    // as a shell has it: 128 + the signal that ended it
    int signal() const;  // 0: it ended by itself
  };

  explicit RankProcesses(bool groups) : groups_(groups) {}

  // Forks; the child calls body(), whose result is its exit code. It runs on `cpus` alone, unless there are none.
  // Errors: kSystem.
  Status start(Rank rank, const std::vector<int>& cpus, const std::function<int()>& body);
  // Also to processes whose rank has ended already.
  void signal_all(int signal) const;
  // Is a process of these groups left?
  bool any_left() const;
  int running() const { return running_; }
  // Those that have ended since the last call.
  std::vector<Ended> reap();

 private:
  struct Child {
    Rank rank = 0;
    pid_t pid = 0;
    bool ended = false;
  };
  const bool groups_;
  int running_ = 0;
  std::vector<Child> all_;
};

// "signal 9 (Killed)"
std::string signal_text(int signal);

}  // namespace weft::launch
