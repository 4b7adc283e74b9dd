#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "apps/launch/frames.h"
#include "apps/launch/job.h"
#include "apps/launch/on_hosts.h"
#include "base/unique_fd.h"

namespace weft::launch {

// An agent as the launcher sees it: the ssh process through which it talks, or, on this host, the agent's own process.
class AgentProcess {
 public:
  // Starts it; the process has a group of its own, which keys of the terminal do not reach. Errors: kSystem.
  static Result<AgentProcess> start(const HostsJob& job, const HostRanks& host, const BlockedSignals& signals);

  const std::string& host() const { return host_.name; }
  Rank ranks() const { return host_.ranks; }

  void send(const Frame& frame) { to_.add(encode(frame)); }
  bool has_to_send() const { return in_.open() && !to_.empty(); }
  int in() const { return in_.get(); }
  int out() const { return out_.get(); }  // -1: at its end
  int err() const { return err_.get(); }

  // When poll() has said that this can be done.
  void write_some();
  void read_out();  // into the frames
  void read_err();  // the last line stays for how_it_ended()

  // The next frame. Errors: it speaks another language, or is another version: with the host's name.
  Result<std::optional<Frame>> next(const std::string& version);

  // The agent's side: it ends its ranks, and itself.
  void hang_up() { in_.reset(); }
  void kill_now() const;
  // Has its process ended?
  bool reap();
  // All that it has sent has been read.
  bool over() const { return ended_ && !out_.open(); }
  // Why it ended before its job was done; with the host's name.
  std::string how_it_ended(const HostsJob& job) const;

  Hello hello;
  Place place;
  bool said_hello = false, ready = false, done = false;
  bool reported = false;  // its problem has been shown
  Rank running = 0;       // its ranks that have not ended

 private:
  HostRanks host_;
  bool local_ = false;
  pid_t pid_ = 0;
  bool ended_ = false;
  int status_ = 0;
  UniqueFd in_, out_, err_;
  PendingBytes to_;
  FrameReader from_;
  bool greeted_ = false;
  std::string errors_;  // the end of what it wrote to stderr
};

}  // namespace weft::launch
