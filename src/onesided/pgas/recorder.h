#pragma once

#include <chrono>
#include <cstdio>
#include <memory>

#include "base/mutex.h"
#include "onesided/pgas/trace.h"

namespace weft::pgas {

// Writes what a rank does to FILE.RANK, for replay on another machine. Times are those of the machine's monotonic
// clock, which ranks of one machine share. Thread: any number at a time.
class Recorder {
 public:
  // Errors (bad input): the file cannot be written.
  static Result<std::shared_ptr<Recorder>> open(const std::string& file, Rank rank, Rank ranks);

  static Duration now() {
    return Duration::picoseconds(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count() *
                                 1000);
  }
  // Sets the event's end to now.
  void note(Event event);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit Recorder(std::FILE* file) : file_(file) {}
  Mutex mutex_;
  std::unique_ptr<std::FILE, Close> file_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::pgas
