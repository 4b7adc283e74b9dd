#pragma once

#include <sys/uio.h>

#include <memory>
#include <vector>

#include "net/link/socket.h"

namespace weft::net::tcp {

// What a connection is about to send without copying it: a pipe that refers to the caller's pages. They must not change
// until the peer has read them (net/tcp/frame.h, Header::received). Unlike MSG_ZEROCOPY this also saves the copy where
// the receiver is on the same machine. Thread: one at a time.
class Pipe {
 public:
  static std::unique_ptr<Pipe> open();  // null: no descriptor is left

  bool empty() const { return bytes_ == 0; }
  // Requires: empty. False: this memory or this kernel does not allow it.
  bool fill(const iovec* parts, int count);
  // Bytes that the socket took; 0: it takes none now; -1: it has failed (errno).
  ssize_t drain(int socket);

 private:
  UniqueFd out_, in_;
  std::size_t bytes_ = 0;
};

// The pipes of a rank: a connection needs one only while it sends. Thread: one at a time.
class Splicer {
 public:
  // Null: there are enough already, or no descriptor is left.
  std::unique_ptr<Pipe> take();
  void give_back(std::unique_ptr<Pipe> pipe);

 private:
  static constexpr int kMost = 16;
  int in_use_ = 0;
  std::vector<std::unique_ptr<Pipe>> free_;
};

}  // namespace weft::net::tcp
