#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "net/messages/carrier.h"
#include "net/tcp/frame.h"
#include "net/tcp/splicer.h"

namespace weft::net::tcp {

using messages::Block;
using messages::Receiver;

// One connection to a peer: frames out of where they lie, and frames in to where they belong.
// Before it is attached, frames queue. Thread: the endpoint's. Owns: its socket; blocks of queued frames. Memory of
// queued frames without a block is the caller's until touches() says otherwise.
class Wire {
 public:
  // With a splicer, which outlives the wire, large frames are not copied.
  Wire(Rank peer, Splicer* splicer) : peer_(peer), splicer_(splicer) {}

  Rank peer() const { return peer_; }
  int fd() const { return fd_.get(); }
  bool attached() const { return fd_.open(); }
  void copy_always() { splicer_ = nullptr; }
  // Frames sent so far must be acknowledged within `timeout`, or the link counts as cut.
  void attach(bootstrap::UniqueFd fd, std::chrono::milliseconds timeout);

  // Sends now what the socket takes, unless told to wait for more.
  void send(const Frame& frame, const std::byte* payload, Block block, bool more_follows = false);
  // False: something is left.
  bool flush();
  bool idle() const { return queue_.empty(); }
  bool wants_output() const { return queue_.size() > gone_; }
  // Tells the peer, if it waits for that, that its memory has been read. What is sent anyway says so too.
  void confirm();
  bool owes_confirmation() const { return owes_confirmation_; }
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
    std::size_t sent = 0;  // header and payload together
    std::size_t bytes() const { return sizeof(Header) + header.frame.length; }
    bool held() const { return (header.flags & kHeld) != 0; }
    bool all_sent() const { return sent == bytes(); }
    int rest(iovec* parts);
  };
  void send(Outgoing out, bool more_follows);
  void drop_queue();
  void number(Header& header);
  // Outcome of a system call: bytes, 0: would block, -1: ended.
  ssize_t write_some(const iovec* parts, int count);
  ssize_t write_failed();
  bool flush_held();
  bool flush_copied();
  // So many bytes more have been sent.
  void advance(std::size_t bytes);
  void retire();
  ssize_t read_some(std::byte* first, std::size_t first_bytes);
  bool next_frame(Receiver& receiver, bool& pauses);

  Rank peer_;
  Splicer* splicer_;
  std::unique_ptr<Pipe> pipe_;  // while it holds a part of the next frame
  bootstrap::UniqueFd fd_;
  bool ended_ = false, closed_ = false;
  std::string end_reason_;

  std::uint32_t frames_sent_ = 0;
  std::deque<Outgoing> queue_;   // stays where it is: the kernel reads headers from here, too
  std::size_t gone_ = 0;         // of its front: sent, but the peer has not confirmed the oldest
  std::uint32_t confirmed_ = 0;  // frames that the peer has whole

  // A small frame costs one system call, and so do the last bytes of a large one together with what follows.
  static constexpr std::size_t kStaging = 32768;
  std::uint32_t frames_received_ = 0;  // counting the one whose bytes are coming in
  bool owes_confirmation_ = false;
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
