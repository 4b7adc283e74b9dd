#pragma once

#include <map>
#include <vector>

#include "model/sim/flow/max_min.h"
#include "model/sim/packet/options.h"
#include "model/sim/packet/rules.h"

namespace weft::sim {

// The way that packets of a load take: a chain of links, or a tree where switches copy packets or sum those of several
// senders. Links are numbered by direction, as MaxMin::Resource.
struct Way {
  struct Hop {
    MaxMin::Resource link;
    std::vector<std::int32_t>
        next;                 // hops that a packet takes after this one; several: it is copied; none: it is there
    std::int32_t before = 0;  // hops that this one waits for; several: packets are summed; none: a sender's
    std::int32_t from = -1;   // one of these
    double per_payload = 1;   // bytes on the link per byte of payload, of a full packet
    Bytes payload = 1, overhead = 0;  // of this link's own packets
  };
  std::vector<Hop> hops;
  std::int32_t ends = 0;  // hops without next
  Bytes payload = 1;      // of a full packet
  Duration latency;       // of the longest chain of links

  // What a packet with that much payload takes of the hop's link. A full one takes raw_per_wire times its payload: the
  // efficiencies of the protocols' tables have the headers of full packets in them.
  double bytes_on(const Hop& hop, Bytes packet, double raw_per_wire) const {
    return raw_per_wire * framed(hop, packet) / hop.per_payload;
  }

 private:
  friend class Ways;
  static double framed(const Hop& hop, Bytes packet) {
    const Bytes packets = (packet + hop.payload - 1) / hop.payload;
    return static_cast<double>(packet + packets * hop.overhead);
  }
};

// Makes ways.
class Ways {
 public:
  // All must outlive this.
  Ways(const topology::Topology& topology, const PacketRules& rules, const PacketOptions& options)
      : topology_(topology), rules_(rules), options_(options) {}

  // `path`: in the order it is taken where it is a chain.
  Way way(MaxMin::Path path) const;
  const LinkRules& rules_of(MaxMin::Resource link) const { return rules_.of(topology_, topology_.link(link / 2)); }

 private:
  topology::DeviceId end_of(MaxMin::Resource link, bool far) const;
  std::map<topology::DeviceId, int> heights(const Way& way) const;
  void connect(Way& way) const;
  Bytes payload_of(const Way& way) const;

  const topology::Topology& topology_;
  const PacketRules& rules_;
  const PacketOptions& options_;
};

}  // namespace weft::sim
