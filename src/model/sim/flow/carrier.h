#pragma once

#include <cstdint>

#include "base/units.h"
#include "model/sim/flow/max_min.h"

namespace weft::sim {

inline constexpr int kMostClasses = 8;  // of service: InfiniBand and 802.1Q have as many priorities that data may use

// A Carrier moves bytes over the links of a path: as flows with fair shares (flows.h) or as packets (packet/packets.h).
// What is carried, when, and what follows is the fabric's; so protocols, slots, posters and switches that sum are
// written once (decision 0053).
//   A load is through when its last byte has come out at the far end, not counting the latency of the way's links: that
//   is part of the protocol's latency, which the fabric adds. Resources are numbered as by Fold.
// Thread: one at a time.
class Carrier {
 public:
  // What the carrier wants to be reminded of; only the carrier knows what it means.
  struct Timer {
    std::uint8_t kind = 0;
    std::int32_t subject = 0;
    std::uint32_t detail = 0;
  };
  // The simulation around a carrier.
  class SimulationHost {
   public:
    virtual Duration time() const = 0;
    // Gives the reminder to handle() after this time, unless it is not due() any more then.
    virtual void remind(Duration delay, const Timer& reminder) = 0;
    // The same where an earlier reminder of this subject is not due any more, so that it may be forgotten.
    virtual void remind_anew(Duration delay, const Timer& reminder) { remind(delay, reminder); }
    virtual void through(std::int32_t load) = 0;

   protected:
    ~SimulationHost() = default;
  };
  struct Load {
    std::int32_t number;       // the caller's, for through()
    MaxMin::Way way = -1;      // of the simulation's MaxMin
    MaxMin::Path path;         // of that; must stay valid; the same memory means the same way
    double bytes;              // raw link bytes
    double cap;                // raw link bytes per second; what its sender can do at the most
    double raw_per_wire = 1;   // raw link bytes per byte of the message
    std::uint8_t service = 0;  // its class, where links distinguish classes
  };

  virtual ~Carrier() = default;
  virtual void start(const Load& load) = 0;
  // Called before time goes on: works off what has changed since.
  virtual void settle() {}
  virtual bool due(const Timer&) const { return true; }
  virtual void handle(const Timer& reminder) = 0;
  // Bytes per second. Requires: above 0.
  virtual void set_capacity(MaxMin::Resource resource, double capacity) = 0;
};

}  // namespace weft::sim
