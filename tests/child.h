#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>

namespace weft::tests {

// This program in another process, as one of the roles of its main(), with a pipe in each direction. It is
// started by exec: a child that was only forked might hold a lock for ever that a thread of its parent's agent had.
class Child {
 public:
  explicit Child(const std::string& role) {
    int up[2], down[2];
    EXPECT_EQ(pipe2(up, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(down, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      // Numbers that no end of the pipes has.
      const int in = fcntl(down[0], F_DUPFD, 100), out = fcntl(up[1], F_DUPFD, 100);
      if (in < 0 || out < 0 || dup2(in, kIn) < 0 || dup2(out, kOut) < 0) _exit(3);
      close(in);
      close(out);
      execl("/proc/self/exe", "child", "role", role.c_str(), nullptr);
      _exit(3);
    }
    in_ = up[0];
    out_ = down[1];
    close(up[1]);
    close(down[0]);
  }
  // The other side: what main() makes of a role.
  struct Inside {};
  explicit Child(Inside) : in_(kIn), out_(kOut) {
    fcntl(kIn, F_SETFD, FD_CLOEXEC);
    fcntl(kOut, F_SETFD, FD_CLOEXEC);
  }
  ~Child() {
    if (pid_ > 0) end(SIGKILL);
    close(in_);
    close(out_);
  }
  void say(const std::string& text) const {
    const auto n = static_cast<std::uint32_t>(text.size());
    EXPECT_EQ(write(out_, &n, sizeof n), static_cast<ssize_t>(sizeof n));
    EXPECT_EQ(write(out_, text.data(), n), static_cast<ssize_t>(n));
  }
  std::string receive() const {
    std::uint32_t n = 0;
    if (!take(&n, sizeof n)) return "";
    std::string text(n, ' ');
    return take(text.data(), n) ? text : "";
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Returns when all its threads stand.
  void stop() const {
    EXPECT_EQ(kill(pid_, SIGSTOP), 0);
    EXPECT_EQ(waitpid(pid_, nullptr, WUNTRACED), pid_);
  }
  pid_t pid() const { return pid_; }

 private:
  bool take(void* to, std::size_t n) const {
    for (std::size_t got = 0; got < n;) {
      const ssize_t here = read(in_, static_cast<char*>(to) + got, n - got);
      if (here <= 0) return false;
      got += static_cast<std::size_t>(here);
    }
    return true;
  }
  static constexpr int kIn = 3, kOut = 4;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
};

}  // namespace weft::tests
