#pragma once

#include <span>
#include <string_view>

#include "base/units.h"
#include "plan/protocol/protocol.h"

namespace weft::tune::nccl {

// NCCL's algorithms, in the order in which it compares them; and what it has none for: sends and receives of a group,
// and kernels for symmetric windows.
enum class Algorithm : std::uint8_t {
  kTree,
  kRing,
  kCollNetDirect,
  kCollNetChain,
  kNvls,
  kNvlsTree,
  kPat,
  kSendRecv,
  kSymmetricLL,
  kSymmetricLLMulticast,
  kSymmetric,
  kSymmetricMulticast
};
inline constexpr int kAlgorithms = 7;        // that are compared
std::string_view name(Algorithm algorithm);  // as NCCL prints it: "NVLSTree"

// NCCL's protocols, in the order in which it compares them.
inline constexpr protocol::Protocol kProtocols[] = {protocol::Protocol::kLL, protocol::Protocol::kLL128,
                                                    protocol::Protocol::kSimple};

// The result of NCCL's search for one pattern: `channels` disjoint ways over all ranks, each with these GB/s inside a
// node and between nodes. No channels: the pattern does not exist here.
struct Graph {
  int channels = 0;
  double intra = 0, inter = 0;  // GB/s per channel
  bool nvlink = true;           // all of it inside a node over NVLink
  bool same_channels = true;    // all channels visit the ranks in the same order

  bool operator==(const Graph&) const = default;
};

// A job as NCCL's tuner sees it: what its model depends on, and nothing else. A value.
struct System {
  int release = 3007;  // minor * 100 + patch: 2.30.7; from 2.19 on, see choice.h
  int ranks = 1, nodes = 1;
  int compute_capability = 90;  // major * 10 + minor, of the oldest GPU
  bool amd_cpu = false;
  bool nvswitch = false;
  bool collnet = false;       // SHARP, and NCCL_COLLNET_ENABLE=1
  bool ll128 = true;          // the paths keep 128-byte stores whole
  bool only_simple = false;   // the network's plugin forbids the other protocols
  double net_latency = 0;     // us, as the network's plugin reports it; InfiniBand's: 0
  double net_overhead = 1.0;  // us
  double nic = 0;             // GB/s of one NIC
  int channels = 1;           // of rings and trees, after all doubling
  bool windows = false;       // the callers' buffers are registered as symmetric windows
  int peer_channels = 2;      // of sends to one peer, before rounding: two for every NVLink to it, over PCIe two
  Graph ring, tree, nvls;

  int per_node() const { return ranks / nodes; }

  bool operator==(const System&) const = default;
};

}  // namespace weft::tune::nccl
