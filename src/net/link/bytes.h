#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

// Bytes over connected sockets.
namespace weft::net::link {

// What one look at a nonblocking socket gave. No bytes and not over: there is nothing to move now.
struct Moved {
  std::size_t bytes = 0;
  bool over = false;  // the connection has ended; nothing will move any more
  int error = 0;      // errno of an end that was not in order
};
Moved receive_now(int fd, void* into, std::size_t bytes);
Moved send_now(int fd, const void* from, std::size_t bytes);

// How long a call may wait for the other side.
struct WaitLimit {
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline = Clock::time_point::max();
  const std::function<bool()>* interrupted = nullptr;  // asked at least every `ask_every` of a wait; true ends it
  std::chrono::milliseconds ask_every{50};
  std::chrono::microseconds look_for{0};  // before the thread sleeps, from which it would have to be woken
};
enum class Outcome { kDone, kOver, kLate, kInterrupted };  // kOver: errno says why, 0 for an end in order

// Waits for these events of poll().
Outcome wait_for(int fd, short events, const WaitLimit& limit);
// Sends the one after the other, or fills `into`.
Outcome send_all(int fd, std::span<const std::byte> first, std::span<const std::byte> second, const WaitLimit& limit);
Outcome receive_all(int fd, std::span<std::byte> into, const WaitLimit& limit);

}  // namespace weft::net::link
