#include "apps/cli/on_interrupt.h"

#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace weft::cli {
namespace {

constexpr int kInterrupted = 128 + SIGINT;

sigset_t interrupt() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

bool ignored() {
  struct sigaction now {};
  return sigaction(SIGINT, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

OnInterrupt::OnInterrupt(std::function<void()> finish) {
  if (ignored()) return;
  const sigset_t set = interrupt();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // of this thread, and of those that it starts
  waits_ = std::jthread([this, finish = std::move(finish), set](const std::stop_token& stop) {
    constexpr timespec kLook{0, 50'000'000};
    while (!stop.stop_requested()) {
      if (sigtimedwait(&set, nullptr, &kLook) != SIGINT) continue;
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      const std::lock_guard lock(mutex_);
      finish();
      std::fflush(nullptr);
      std::_Exit(kInterrupted);
    }
  });
}

OnInterrupt::~OnInterrupt() {
  if (!waits_.joinable()) return;
  waits_.request_stop();
  waits_.join();
  const sigset_t set = interrupt();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace weft::cli
