#pragma once

#include <string>
#include <vector>

#include "apps/launch/rank_processes.h"
#include "base/result.h"

namespace weft::launch {

// What one host is to run, as the launcher describes it to the host's agent. Values cross the wire as JSON.
struct HostJob {
  std::vector<std::string> program;
  std::string folder;  // to run it in
  std::vector<Setting> environment;
  Rank first = 0, ranks = 0, size = 0;  // of the host; of the job
  bool opens = false;                   // this host opens the place where ranks meet …
  std::string at;                       // … at this address, unless WEFT_IFACE says otherwise; empty: loopback

  std::string to_text() const;
  static Result<HostJob> parse(const std::string& text);
};

// How a host is reached, as sshd has it: addresses of the ssh connection. Empty: without ssh.
struct Hello {
  std::string host;            // its own name
  std::string client, server;  // the launcher's address and the host's

  std::string to_text() const;
  static Result<Hello> parse(const std::string& text);
};

// The address at which ranks meet, and that of the arbiter.
struct Place {
  std::string join, arbiter;

  std::string to_text() const;
  static Result<Place> parse(const std::string& text);
};

// How a rank has ended.
struct RankEnd {
  int code = 0, signal = 0;
  std::string last;  // the call it was in or had made last; empty: unknown

  std::string to_text() const;
  static Result<RankEnd> parse(const std::string& text);
};

}  // namespace weft::launch
