#include "tests/processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/check.h"

namespace weft::tests {

std::string fresh_id(const std::string& what) {
  static std::atomic<int> number{0};
  return fmt::format("{}-{}-{}", what, getpid(), number++);
}

bool leaves_a_file(const std::string& id) { return access(("/dev/shm/weft-" + id).c_str(), F_OK) == 0; }

void Report::say(const std::string& text) const {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(fd_, text.data() + written, text.size() - written);
    if (n <= 0) return;  // the parent has gone: nobody reads the report
    written += static_cast<std::size_t>(n);
  }
}

std::string Outcome::how() const {
  return WIFSIGNALED(wait_status) ? fmt::format("was killed by signal {}", WTERMSIG(wait_status))
                                  : fmt::format("exited with {}", WEXITSTATUS(wait_status));
}

Process::Process(const std::function<void(Report&)>& body) {
  int ends[2];
  WEFT_REQUIRE(pipe(ends) == 0);
  std::fflush(nullptr);
  pid_ = fork();
  WEFT_REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the test itself is killed, its children go with it
    Report report(ends[1]);
    body(report);
    _exit(0);  // not exit: the parent's buffers and its test framework are not the child's to finish
  }
  close(ends[1]);
  fd_ = ends[0];
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), fd_(std::exchange(other.fd_, -1)) {}

Process::~Process() {
  if (pid_ > 0) {
    send(SIGKILL);
    join();
  }
}

void Process::send(int signal) const { kill(pid_, signal); }

void Process::await_word() const {
  while (!has_word(std::chrono::hours(1))) {
  }
}

bool Process::has_word(std::chrono::milliseconds limit) const {
  pollfd word{fd_, POLLIN, 0};
  return poll(&word, 1, static_cast<int>(limit.count())) > 0;
}

Outcome Process::join() {
  Outcome outcome;
  char text[512];
  for (;;) {
    const ssize_t n = read(fd_, text, sizeof text);
    if (n <= 0) break;
    outcome.said.append(text, static_cast<std::size_t>(n));
  }
  close(std::exchange(fd_, -1));
  while (waitpid(pid_, &outcome.wait_status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return outcome;
}

}  // namespace weft::tests
