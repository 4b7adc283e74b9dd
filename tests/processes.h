#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

namespace weft::tests {

// A name for a job of this test process, not used before: "conformance-4711-3".
std::string fresh_id(const std::string& what);

// Is there a shared-memory file of this job?
bool leaves_a_file(const std::string& id);

// The report of a child to its parent. Owns: nothing; valid inside the child's body.
class Report {
 public:
  explicit Report(int fd) : fd_(fd) {}
  void say(const std::string& text) const;

 private:
  int fd_;
};

struct Outcome {
  std::string said;
  int wait_status = 0;

  bool ended_well() const { return wait_status == 0; }
  std::string how() const;  // "was killed by signal 9"
};

// A forked child that runs a body and exits with 0; a broken check or a sanitizer's finding exits otherwise.
// Owns: the child: killed, by its number, and reaped at the latest by the destructor.
class Process {
 public:
  explicit Process(const std::function<void(Report&)>& body);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  // Waits until the child has said something (without taking it) or has ended.
  void await_word() const;
  // The same, but gives up after a while: false.
  bool has_word(std::chrono::milliseconds limit) const;
  // Waits for the end. Once.
  Outcome join();

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
};

}  // namespace weft::tests
