#pragma once

#include <optional>

#include "move/transfer/object_io.h"
#include "move/transfer/peer.h"

namespace weft::transfer {
namespace detail {

// A request and its progress.
struct Work {
  Op op = Op::kRead;
  std::shared_ptr<const List> local, remote;
  std::vector<std::uint32_t> local_blocks, remote_blocks;
  std::vector<std::uint64_t> generations;
  std::string notify;
  std::chrono::milliseconds deadline{0};
  bool verify = false;
  std::int64_t elements = 0;
  Bytes total = 0;

  // The state of the last post.
  State state = State::kPrepared;
  Error error;
  std::uint64_t post = 0;
  std::chrono::steady_clock::time_point started, progressed;
  std::int64_t next = 0;  // the element to be moved …
  Bytes inside = 0;       // … from here on
  std::size_t local_row = 0, remote_row = 0;
  Bytes moved = 0;
  std::int64_t unanswered = 0;  // by the peer's line
  bool notified = false;
  std::uint64_t closings = 0;  // of the local side, when its regions were last looked at
  // Writes by a line that the peer has not confirmed. While there are any, a request that shall end goes on: see
  // stop().
  std::int64_t unconfirmed = 0;
  struct Ending {
    State with = State::kCancelled;
    Error why;
    std::chrono::steady_clock::time_point since;
  };
  std::optional<Ending> ending;
  std::vector<std::shared_ptr<ObjectIo::Job>> jobs;  // parts of objects that are under way
  std::uint32_t sent_sum = 0, read_sum = 0;          // by a line, of the pieces of one element so far, in their order

  List::Element local_at(std::int64_t i) {
    return local->at(local_blocks.empty() ? i : local_blocks[static_cast<std::size_t>(i)], local_row);
  }
  List::Element remote_at(std::int64_t i) {
    return remote->at(remote_blocks.empty() ? i : remote_blocks[static_cast<std::size_t>(i)], remote_row);
  }
  void end(State with, Error why = {});
  // Ends it, now or when the peer has confirmed what has been sent, so that no byte arrives after the end.
  void stop(State with, Error why);
};

}  // namespace detail

// How long a peer may take to confirm; then the connection to it is cut, and its server drops what it has not applied.
inline constexpr std::chrono::seconds kConfirm{1};

// Begins a post. Requires: it is not running.
void start(const std::shared_ptr<detail::Work>& work);
// Moves up to about `budget` bytes, less where the peer is not ready; ends the request where it must. `self`: this
// agent's name, for notifications.
void step(const std::shared_ptr<detail::Work>& work, const std::string& self, Bytes budget);

}  // namespace weft::transfer
