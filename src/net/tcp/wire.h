#pragma once

#include <array>
#include <deque>
#include <string>

#include "net/messages/carrier.h"
#include "net/tcp/frame.h"

namespace weft::net::tcp {

using messages::Block;
using messages::Receiver;

enum class ZeroCopy { kAuto, kOn, kOff };

// One connection to a peer: frames out of where they lie, and frames in to where they belong.
// Before it is attached, frames queue. Thread: the endpoint's. Owns: its socket; blocks of queued frames. Memory of
// queued frames without a block is the caller's until touches() says otherwise.
class Wire {
 public:
  Wire(Rank peer, ZeroCopy zero_copy) : peer_(peer), zero_copy_(zero_copy) {}

  Rank peer() const { return peer_; }
  int fd() const { return fd_.get(); }
  bool attached() const { return fd_.open(); }
  // Frames sent so far must be acknowledged within `timeout`, or the link counts as cut.
  void attach(bootstrap::UniqueFd fd, std::chrono::milliseconds timeout);

  // Sends now what the socket takes, unless told to wait for more.
  void send(const Frame& frame, const std::byte* payload, Block block, bool more_follows = false);
  // False: something is left.
  bool flush();
  bool idle() const { return queue_.empty() && unconfirmed_.empty(); }
  // Does a frame under way still read these bytes?
  bool touches(const std::byte* begin, const std::byte* end) const;

  // Reads until nothing is there or arrived() pauses it; true: something came.
  bool receive(Receiver& receiver);
  // Unread bytes that were received together with others.
  bool holds_bytes() const { return end_ - begin_ >= sizeof(Header) || (in_payload_ && end_ > begin_); }

  // The peer's side is closed; why.
  bool ended() const { return ended_; }
  // … otherwise than by closing it.
  bool broke() const { return ended_ && !closed_; }
  const std::string& end_reason() const { return end_reason_; }
  void end(const std::string& reason);
  void close() { fd_.reset(); }

  bool watched_for_output = false;  // by the endpoint's epoll

 private:
  struct Outgoing {
    Header header;
    const std::byte* payload;
    Block block;
    std::size_t sent = 0;       // header and payload together
    std::uint32_t last_id = 0;  // zero copy: of the last send that read it …
    bool zero_copied = false;   // … if any did
    std::size_t bytes() const { return sizeof(Header) + header.frame.length; }
  };
  void choose_congestion_control();
  // Outcome of a system call: bytes, 0: would block, -1: ended.
  ssize_t write_some(const iovec* parts, int count, int flags);
  bool flush_zero_copy(Outgoing& front);
  void confirm();
  ssize_t read_some(std::byte* first, std::size_t first_bytes);
  bool next_frame(Receiver& receiver, bool& pauses);

  Rank peer_;
  ZeroCopy zero_copy_;
  bootstrap::UniqueFd fd_;
  bool ended_ = false, closed_ = false;
  std::string end_reason_;

  std::uint32_t frames_sent_ = 0;
  std::deque<Outgoing> queue_, unconfirmed_;
  std::uint32_t next_id_ = 0, confirmed_ = 0;  // of sends with zero copy
  int copied_ = 0;                             // confirmations that say that the kernel copied after all

  // A small frame costs one system call, and so do the last bytes of a large one together with what follows.
  static constexpr std::size_t kStaging = 8192;
  std::uint32_t frames_received_ = 0;
  bool in_payload_ = false;
  Header header_;
  std::byte* into_ = nullptr;
  std::byte* placed_ = nullptr;
  std::size_t left_ = 0;
  std::uint32_t crc_ = 0;
  std::size_t begin_ = 0, end_ = 0;
  alignas(64) std::array<std::byte, kStaging> staging_;
};

}  // namespace weft::net::tcp
