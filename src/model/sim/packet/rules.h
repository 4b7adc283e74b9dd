#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "machine/topology.h"

namespace weft::sim {

// The packets of one kind of link, and the control that keeps its receiver from overflowing.
struct LinkRules {
  enum class Control : std::uint8_t { kCredits, kPause };
  std::string link;      // name of the LinkKind
  std::string networks;  // only where a network switch's model begins so; empty: all
  Bytes payload = 0, overhead = 0;
  Control control = Control::kCredits;
  double round_trips = 0;     // credits: room, in units of rate x round trip
  Duration buffer;            // pause: room, as time at the link's rate
  bool cut_through = true;    // else a switch waits for the packet's end
  bool side_by_side = false;  // the links of a bundle carry a packet each
};

// Explicit congestion notification and DCQCN. Marking grows from none to `mark_most` between two queue lengths.
struct CongestionRules {
  std::string name;
  Duration mark_from, mark_full;  // queue lengths, as time at the link's rate
  double mark_most = 0;           // probability; longer queues mark every packet
  Duration notice_interval;       // at most one notice per flow and interval
  double gain = 0;                // g of the estimate alpha
  Duration timer;                 // rate increase
  Duration alpha_timer;           // alpha's decay
  Bytes byte_counter = 0;         // rate increase
  int fast_steps = 0;             // F: steps of fast recovery
  double increase = 0;            // additive, as part of the link's rate
  bool clamps = true;             // every notice lowers the target of recovery, not only the first one after a step
};

struct PacketRules {
  std::vector<LinkRules> links;
  std::vector<CongestionRules> congestion;  // not empty
  double alpha = 0;                         // of switches' shared buffers
  double resume_part = 0;                   // of a NIC's room: a paused sender goes on below it
  Duration timeout;                         // without an acknowledgement, until a sender repeats
  Duration resend;  // a packet that a switch has copied or summed is sent again by the device that lost it

  // The shipped rules (data/protocol/packets.json).
  static PacketRules shipped();
  // Errors (bad input): not JSON, another schema, an entry without source and date, a number that is not positive.
  static Result<PacketRules> parse(std::string_view file, std::string_view text);

  // Requires: a name that there is.
  const CongestionRules& congestion_of(std::string_view name) const;
  // Of one link. Every LinkKind has an entry without `networks`: parse() sees to that.
  const LinkRules& of(const topology::Topology& topology, const topology::Link& link) const;
};

}  // namespace weft::sim
