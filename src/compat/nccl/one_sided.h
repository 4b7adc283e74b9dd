#pragma once

#include <deque>
#include <map>

#include "compat/nccl/library.h"

// Puts and signals (ncclPutSignal, ncclSignal, ncclWaitSignal).
namespace weft::compat::nccl {

// Memory that a rank has registered. All ranks of a communicator register in the same order, so the number names the
// same window on all of them.
struct Window {
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;
};

// A signal's place at its receiver, by its sender.
struct SignalPlace {
  Rank peer = 0;
  int signal = 0, context = 0;
  auto operator<=>(const SignalPlace&) const = default;
};

struct Put {
  SignalPlace to;
  const void* data = nullptr;
  std::size_t bytes = 0;  // 0: a signal alone
  std::uint64_t window = 0;
  std::size_t offset = 0;
};

// One rank's puts and signals. Data goes to the peer's memory where this process reaches it: in its own, and in windows
// that kernels have opened; otherwise it is sent with the signal and is there when the peer has waited for that.
// Signals are messages of the communicator's, so they arrive in order, and after what was put before. Thread: the
// communicator's own.
class OneSided {
 public:
  explicit OneSided(ncclComm& comm) : comm_(comm) {}

  // Says where this rank's window lies. Never waits.
  Status announce(const Window& window);
  // What comes for it from now on is an error.
  void forget(std::uint64_t window) { own_.erase(window); }
  // Errors: bad input: it ends past the peer's window; else of the communicator.
  Status put(const Put& put);
  // Takes `count` signals. Errors: of the communicator.
  Status wait(const SignalPlace& place, int count);
  // Waits for what has been sent.
  Status finish();

 private:
  struct Announcement {
    std::uint64_t number, address, bytes, process;
  };
  struct Header {
    std::uint64_t window, offset, bytes;  // bytes: those that follow in a message of their own
    std::int64_t signal, context;
  };
  struct Sent {
    Message message;
    std::shared_ptr<void> memory;
  };
  Status send(std::shared_ptr<void> memory, std::size_t bytes, Rank peer, int tag);
  template <class T>
  Status send(const T& value, Rank peer, int tag) {
    return send(std::make_shared<T>(value), sizeof value, peer, tag);
  }
  Result<Announcement> window_of(Rank peer, std::uint64_t number);
  std::byte* reached(const Put& put, const Announcement& there) const;
  Status send_along(const Put& put);
  Status take_one();
  Status look_at_sent();
  Status look_again();

  ncclComm& comm_;
  std::map<std::uint64_t, Window> own_;
  std::map<std::pair<Rank, std::uint64_t>, Announcement> others_;
  std::map<SignalPlace, std::int64_t> signals_;  // that have come and were not taken
  std::deque<Sent> sent_;
};

}  // namespace weft::compat::nccl
