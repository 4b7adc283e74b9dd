#include "net/shm/end_job.h"

#include <signal.h>
#include <unistd.h>

namespace weft::net::shm {
namespace {

void on_end(int, siginfo_t* info, void*) { _exit(info->si_value.sival_int); }

}  // namespace

void accept_end() {
  struct sigaction before {};
  if (sigaction(SIGRTMAX, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_sigaction = on_end;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGRTMAX, &action, nullptr);
}

void end_process(pid_t process, int status) {
  sigval value{};
  value.sival_int = status;
  sigqueue(process, SIGRTMAX, value);
}

}  // namespace weft::net::shm
