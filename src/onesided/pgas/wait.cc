#include "onesided/pgas/wait.h"

#include <sched.h>

#include <thread>

namespace weft::pgas {

void Idler::pause_slowly() {
  constexpr std::chrono::milliseconds kExamineEvery{20}, kYielding{1};
  constexpr std::chrono::microseconds kNap{50};
  const auto now = Clock::now();
  if (since_ == Clock::time_point{}) since_ = examined_ = now;
  if (now - examined_ > kExamineEvery) {
    examined_ = now;
    if (const std::string trouble = watch_.trouble ? watch_.trouble() : ""; !trouble.empty())
      space_.misuse(call_, "waits in vain: " + trouble);
  }
  if (now - since_ < kYielding)
    sched_yield();
  else
    std::this_thread::sleep_for(kNap);
}

}  // namespace weft::pgas
