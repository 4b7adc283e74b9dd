#include "net/shm/end_job.h"

#include <signal.h>
#include <sys/syscall.h>
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

// As sigqueue(), which takes a number that may have become another process's.
void end_process(int process, int status) {
  if (process < 0) return;
  siginfo_t info{};
  info.si_signo = SIGRTMAX;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = status;
  syscall(SYS_pidfd_send_signal, process, SIGRTMAX, &info, 0);
}

}  // namespace weft::net::shm
