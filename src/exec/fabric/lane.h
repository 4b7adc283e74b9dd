#pragma once

#include "base/units.h"
#include "weft/types.h"

namespace weft::fabric {

// Messages between two ranks beside the fabric's calls: in order per pair and direction, of lengths that both ends know
// from what was sent before. What calls send never meets them. Thread: the endpoint's.
class Lane {
 public:
  virtual ~Lane() = default;

  // Of one message.
  virtual Bytes max_bytes() const = 0;
  // Takes the next message of `peer`, of this many bytes (1 … max_bytes()). False: it is not there yet; parts of `to`
  // may be written until it is, so ask again with the same arguments, or not at all.
  virtual bool receive(Rank peer, std::byte* to, Bytes bytes) = 0;
  // False: there is no room; nothing was done. True: `from` must not change until reads() says so.
  virtual bool send(Rank peer, const std::byte* from, Bytes bytes) = 0;
  // Is something that was sent from there not yet on its way?
  virtual bool reads(const std::byte* from, Bytes bytes) = 0;
  // Can it have sent anything?
  virtual bool has_met(Rank peer) = 0;
  // Has the peer left in good order?
  virtual bool has_left(Rank peer) = 0;
};

// What is done beside calls while they wait. Thread: the endpoint's.
class Background {
 public:
  virtual ~Background() = default;
  // Is there anything to wait for?
  virtual bool pending() const = 0;
  // Moves on without waiting; true: something moved.
  virtual bool progress() = 0;
};

}  // namespace weft::fabric
