#include "tests/jumping_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<std::int64_t> ahead{0};

}  // namespace

namespace weft::tests {

void set_clock_ahead(std::int64_t seconds) { ahead = seconds; }

}  // namespace weft::tests

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += ahead.load();
  return result;
}
