#pragma once

#include <chrono>
#include <string>

#include "net/link/handshake.h"
#include "net/link/socket.h"
#include "net/messages/block.h"
#include "net/messages/frame.h"

namespace weft::net::messages {

using Clock = std::chrono::steady_clock;

// A communicator's number on the connections that it shares with others (hub.h). Every process numbers its own, and
// frames carry the receiver's.
using ContextId = std::uint32_t;
inline constexpr ContextId kRoot = 0;  // the communicator whose ranks met

// The interface that a carrier asks of its hub, on the thread that moves frames.
class Receiver {
 public:
  // Where a data frame's bytes go; null: the frame is out of turn, and the receiver has said why.
  virtual std::byte* place(Rank peer, ContextId context, const Frame& frame) = 0;
  // The frame is complete and sound; `at`: where its bytes are. True: a strand may be able to go on.
  virtual bool arrived(Rank peer, ContextId context, const Frame& frame, const std::byte* at) = 0;
  // Something is wrong with what the peer sent.
  virtual void damaged(Rank peer, const std::string& what) = 0;
  // Nothing more will come from this peer.
  virtual void ended(Rank peer, const std::string& reason) = 0;
  // Whether some rank has said that the communicator is broken. Callers may use the memory of failed calls again, so
  // bytes that were read from a peer's memory may then be others than those that it sent.
  virtual bool broken(ContextId) const { return false; }
  // Whether some communicator with this peer goes on, so that the end of its connection is a death.
  virtual bool expects(Rank) const { return true; }
  // A connection of several is lost. The part of a message that was coming in by it comes again.
  virtual void forget(Rank, ContextId, const Frame&) {}
  virtual void lost(Rank, int /*lane*/, const std::string& /*why*/) {}
  // … and both ends know what has come on it: it may be made anew.
  virtual void reopen(Rank, int /*lane*/) {}

 protected:
  ~Receiver() = default;
};

// What moves frames between this rank and its peers. A peer's frames may arrive out of order only where they are
// numbered: parts of striped messages, messages, signals.
// Thread: one at a time, the hub sees to that. Owns: connections; blocks of frames under way. Memory of frames without
// a block is the caller's until reader_of() says otherwise.
class Carrier {
 public:
  struct Route {
    Rank peer;
    ContextId own, peers;  // the communicator's number here, and at the peer
  };

  virtual ~Carrier() = default;

  // How many connections there are to a peer.
  virtual int lanes() const = 0;
  // A connection on which both ends have proved the job's key by `greeting`.
  virtual void attach(Rank peer, int lane, UniqueFd fd, const link::Handshake& greeting) = 0;
  virtual bool attached(Rank peer, int lane) const = 0;
  // Does a peer stay while one of its connections is there?
  virtual bool outlives_lanes() const { return false; }
  // How often that connection has been lost: one that is made anew says so, for neither end takes an old one for it.
  virtual std::uint32_t losses(Rank, int /*lane*/) const { return 0; }
  // What each connection has carried, for the log; empty: nothing is known.
  virtual std::string describe_lanes(Rank) const { return {}; }

  // Sends now what the peer's connection takes, unless more follows; the rest waits. So does everything before the
  // connection is there.
  virtual void send(const Route& route, const Frame& frame, const std::byte* payload, const Block& block,
                    bool more_follows) = 0;
  // Moves on what is under way from and to this peer, or all. True: something came.
  virtual bool pump(Rank peer) = 0;
  virtual bool pump_all() = 0;

  // This peer has left a communicator in good order: what that has under way to it does not matter any more.
  virtual void left(Rank peer, ContextId own) = 0;

  // A peer to whom something of this communicator is under way; -1: none.
  virtual Rank unsettled(ContextId own) = 0;
  // A peer to whom a frame of this communicator is under way that still reads these bytes; -1: none.
  virtual Rank reader_of(ContextId own, const std::byte* begin, const std::byte* end) const = 0;
  // Whether a frame of this communicator, under way to this peer, reads any caller's memory.
  virtual bool reads_callers(Rank peer, ContextId own) const = 0;
  // Lets no frame of this communicator read callers' memory any more, as its call has failed. Where connections are not
  // shared, they close; else the frames go on from copies.
  virtual void drop_callers(ContextId own) = 0;
  // Bytes that are coming in for this communicator go nowhere from now on: callers' memory is theirs again.
  virtual void divert(ContextId own) = 0;
  // Whether several communicators use the connections: then a frame under way lends no memory that cannot be taken
  // back, as giving up a connection would concern the others.
  virtual void share(bool several) = 0;
  // Whether something still writes into memory that place() has named for this communicator.
  virtual bool writes(ContextId) const { return false; }

  // Called before the endpoint sleeps on its epoll set. False: there is something to do already.
  virtual bool may_sleep() = 0;
  // What the carrier has put into the set has an event.
  virtual void woken(void* what) = 0;

  // Stays until what was sent is the peers' business, at most so long. Nothing else is called afterwards.
  virtual void leave(Clock::duration longest) = 0;
};

}  // namespace weft::net::messages
