#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/link/bytes.h"
#include "net/link/socket.h"

namespace weft::net::ucx {

// What a rank says last to a communicator, by its number at the hearer: that it leaves, or that it is broken. See
// messages::FrameKind.
struct LastWord {
  std::uint64_t kind = 0, number = 0, offset = 0, context = 0;
};

// A proved TCP connection to a peer. Both sides first exchange their worker's address: its length, and its
// bytes. A rank that leaves a communicator sends a last word, and closes after that of the last one. A connection that
// ends without one of them is that of a process that died. Words on this connection arrive without anybody's progress,
// other than what is sent through UCX. Thread: one at a time. Owns: the socket.
class Exchange {
 public:
  Exchange(UniqueFd fd, std::span<const std::byte> own_address);

  int fd() const { return fd_.get(); }
  // Moves on as far as the socket allows.
  void advance();
  // Has the peer's address come?
  bool done() const { return heard_.size() >= sizeof(Length) && heard_.size() >= end_of_address(); }
  // Requires: done.
  const std::byte* address() const { return heard_.data() + sizeof(Length); }

  void say_last(const LastWord& word);
  // Has all been said, as far as it can be?
  bool silent() const { return problem_ || said_ >= to_say_.size(); }
  // The peer's next, if it has come.
  std::optional<LastWord> take_word();
  // Why nothing more will come, if so.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  using Length = std::uint32_t;
  // Requires: the length has come.
  std::size_t end_of_address() const;
  // How many more bytes the peer may have to say next; 0: none.
  std::size_t expected() const;
  // Bytes moved; 0: would block, or there is a problem.
  std::size_t outcome(const link::Moved& moved);

  UniqueFd fd_;
  std::vector<std::byte> to_say_, heard_;
  std::size_t said_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace weft::net::ucx
