#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/bootstrap/socket.h"

namespace weft::net::ucx {

// A proved TCP connection to a peer. Both sides first tell each other their worker's address: its length, and so many
// bytes. Who leaves says a number, and closes. A connection that ends without it is that of a process that died.
// Thread: one at a time. Owns: the socket.
class Exchange {
 public:
  Exchange(bootstrap::UniqueFd fd, std::span<const std::byte> own_address);

  int fd() const { return fd_.get(); }
  // Moves on as far as the socket allows.
  void advance();
  // Has the peer's address come?
  bool done() const { return heard_.size() >= sizeof(Length) && heard_.size() >= end_of_address(); }
  // Requires: done.
  const std::byte* address() const { return heard_.data() + sizeof(Length); }

  void say_goodbye(std::uint64_t number);
  // Has all been said, as far as it can be?
  bool silent() const { return problem_ || said_ == to_say_.size(); }
  // The peer's, if it has left.
  std::optional<std::uint64_t> goodbye() const;
  // Why nothing more will come, if so.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  using Length = std::uint32_t;
  // Requires: the length has come.
  std::size_t end_of_address() const;
  // How many more bytes the peer may have to say next; 0: none.
  std::size_t expected() const;
  // Bytes moved; 0: would block, or there is a problem.
  std::size_t outcome(ssize_t moved);

  bootstrap::UniqueFd fd_;
  std::vector<std::byte> to_say_, heard_;
  std::size_t said_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace weft::net::ucx
