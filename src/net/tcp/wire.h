#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/link/seal.h"
#include "net/messages/carrier.h"
#include "net/tcp/frame.h"
#include "net/tcp/splicer.h"

namespace weft::net::tcp {

using messages::Block;
using messages::ContextId;
using messages::Receiver;

// The numbers of a communicator here and at the peer.
struct Contexts {
  ContextId own = 0, peers = 0;
};

// One connection to a peer: frames out of where they lie, and frames in to where they belong.
// Before it is attached, frames queue. Thread: the endpoint's. Owns: its socket; blocks of queued frames. Memory of
// queued frames without a block is the caller's until touches() says otherwise.
class Wire {
 public:
  // With a splicer large frames are not copied; with `sealed`, blocks for encrypted bytes, all frames are sealed; with
  // `journal`, blocks for copies, frames stay until the peer has confirmed them, so that another wire can send them
  // again when this one is lost. All outlive the wire.
  Wire(Rank peer, Splicer* splicer, messages::Blocks* sealed = nullptr, messages::Blocks* journal = nullptr)
      : peer_(peer), splicer_(splicer), sealed_(sealed), journal_(journal) {}

  Rank peer() const { return peer_; }
  int fd() const { return fd_.get(); }
  bool attached() const { return fd_.open(); }
  void copy_always() { splicer_ = nullptr; }
  // From now on, or until further notice: frames that are already under way may lend callers' memory still.
  void share(bool several) { shared_ = several; }
  // How frames are sealed, before attach(). Requires: there are blocks for it; `greeting` is done.
  void seal_by(const link::Sealing& sealing, const link::Handshake& greeting);
  // Frames sent so far must be acknowledged within `timeout`, or the link counts as cut.
  void attach(UniqueFd fd, std::chrono::milliseconds timeout);

  // Sends what the socket takes at once, unless `more_follows`.
  void send(const Frame& frame, const std::byte* payload, Block block, bool more_follows = false,
            Contexts contexts = {});
  // False: something is left.
  bool flush();
  // With a journal: nothing is to be sent here, and no frame reads a caller's memory.
  bool idle() const {
    return queue_.empty() || (journal_ != nullptr && (frozen_ || !wants_output()) && !touches_callers());
  }
  // Is something of this communicator under way?
  bool carries(ContextId own) const;
  bool wants_output() const { return queue_.size() > gone_; }
  // Tells the peer, if it waits for that, that its memory has been read. What is sent anyway says so too.
  void confirm();
  bool owes_confirmation() const { return owes_confirmation_; }
  // Does a frame of this communicator, under way, still read these bytes?
  bool touches(ContextId own, const std::byte* begin, const std::byte* end) const;
  // … or any memory of that communicator's callers, or of any's?
  bool touches_callers(ContextId own) const;
  bool touches_callers() const;
  // Copies what does, so that the caller may change it. False: the kernel reads some of it where it lies.
  bool copy_callers(ContextId own, messages::Blocks& blocks);
  // The rest of a frame that is coming in for this communicator goes to `sink`, a slot's bytes.
  void divert(ContextId own, std::byte* sink);

  // Reads until nothing is there or arrived() pauses it; true: something came.
  bool receive(Receiver& receiver);
  // Unread bytes that were received together with others.
  bool holds_bytes() const {
    const std::size_t enough = !in_payload_ ? head_bytes() : left_ > 0 ? 1 : kTag;
    return end_ - begin_ >= enough;
  }

  // The peer's side is closed; why.
  bool ended() const { return ended_; }
  // … otherwise than by closing it.
  bool broke() const { return ended_ && !closed_; }
  const std::string& end_reason() const { return end_reason_; }
  void end(const std::string& reason);
  void close() { fd_.reset(); }
  // Ends without sending what the kernel still holds.
  void reset(const std::string& reason);

  // --- with a journal (journal.cc) ---
  // Says that another connection to this peer is lost.
  void report(const Loss& loss);
  // What the peer has said of others since.
  std::vector<Loss> take_reports() { return std::exchange(reports_, {}); }
  // Frames that have come whole.
  std::uint32_t received() const { return frames_received_ - (in_payload_ ? 1 : 0); }
  // The header of the data frame of which a part has come.
  std::optional<Header> unfinished() const;
  // The connection is lost: it is closed, its frames and those that follow wait for hand_over(). They may read callers'
  // memory until then.
  void freeze();
  bool frozen() const { return frozen_; }
  // Sends the frames after the first `received` over another wire; this one is as new.
  void hand_over(std::uint32_t received, Wire& to);
  // Gives up all frames: there is nobody to send them to.
  void forget() { drop_queue(); }
  // Bytes that are to be sent or not acknowledged.
  Bytes backlog() const;
  // Does nothing come back on it, although something was sent three timeouts ago?
  bool silent() const;
  // Bytes of data sent since the connection was made, the first time.
  Bytes carried() const { return carried_; }

  bool watched_for_output = false;  // by the endpoint's epoll

 private:
  static constexpr std::size_t kTag = link::Sealer::kTagBytes;
  // What a sealed frame has besides its bytes.
  struct Seals {
    std::array<std::byte, sizeof(Header) + kTag> head;
    std::array<std::byte, kTag> tail;
  };
  struct Outgoing {
    Header header;
    const std::byte* payload;
    Block block;
    std::size_t sent = 0;  // header, payload and tags together
    std::unique_ptr<Seals> seals;
    const std::byte* plain = nullptr;  // with a journal, what a payload was before it was encrypted
    Block plain_block = {};
    ContextId own = 0;
    std::size_t head_bytes() const { return seals ? sizeof seals->head : sizeof header; }
    std::size_t tail_bytes() const { return seals && header.frame.length > 0 ? kTag : 0; }
    std::size_t bytes() const { return head_bytes() + header.frame.length + tail_bytes(); }
    bool held() const { return (header.flags & kHeld) != 0; }
    bool all_sent() const { return sent == bytes(); }
    bool reads_caller() const {
      if (plain != nullptr && !plain_block) return true;
      return !block && payload != nullptr && (held() || !all_sent());
    }
    int rest(iovec* parts);
  };
  static constexpr int kMostParts = 3;  // of rest()
  void send(Outgoing out, bool more_follows);
  void drop_queue();
  void number(Header& header);
  // Seals a frame that has its number.
  void seal(Outgoing& out);
  std::size_t head_bytes() const { return opener_ ? sizeof(Header) + kTag : sizeof(Header); }
  // Opens the header in header_. False: it is not what the peer sent next.
  bool open_header();
  void check(std::byte* at, std::size_t bytes);
  // Empty if the bytes of the frame that has just come are sound. Otherwise what is wrong.
  std::string fault_in_payload();
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
  bool shared_ = false;
  messages::Blocks* const sealed_;               // null: frames are not sealed
  messages::Blocks* const journal_;              // null: frames are forgotten when they are sent
  std::optional<link::Sealer> sealer_, opener_;  // of frames out and in, once it is attached
  std::unique_ptr<Pipe> pipe_;                   // while it holds a part of the next frame
  UniqueFd fd_;
  bool ended_ = false, closed_ = false, frozen_ = false;
  std::string end_reason_;

  std::uint32_t frames_sent_ = 0;
  std::deque<Outgoing> queue_;   // stays where it is: the kernel reads headers from here, too
  std::size_t gone_ = 0;         // of its front: sent, but the peer has not confirmed the oldest
  std::uint32_t confirmed_ = 0;  // frames that the peer has whole

  // A small frame costs one system call, and so do the last bytes of a large one together with what follows.
  static constexpr std::size_t kStaging = 32768;
  std::uint32_t frames_received_ = 0;  // counting the one whose bytes are coming in
  bool owes_confirmation_ = false;
  std::vector<Loss> reports_;
  std::uint32_t since_confirmed_ = 0;  // frames that have come since the last header went out
  Bytes carried_ = 0;
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
