#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weft::topology {

using DeviceId = std::int32_t;
using LinkId = std::int32_t;

enum class DeviceKind : std::uint8_t {
  kGpu,     // an accelerator that can be a rank
  kCore,    // a CPU core; a rank on machines without GPUs
  kCpu,     // a socket or NUMA node: root complex and memory controller
  kMemory,  // DRAM of one NUMA node
  kPcieSwitch,
  kNvSwitch,  // all switch chips of one NVLink domain, as one device (they stripe)
  kNic,
  kNetworkSwitch,
};
inline constexpr std::size_t kDeviceKinds = static_cast<std::size_t>(DeviceKind::kNetworkSwitch) + 1;

enum class LinkKind : std::uint8_t {
  kNvlink,
  kXgmi,
  kChipLink,  // Xe Link, NeuronLink, ICI, IPU-Link, …: accelerators that pass each other's traffic on in hardware
  kPcie,
  kInterSocket,
  kMemory,
  kNetwork,
};
// Links that only accelerators and their switches use (and CPUs that speak them): their paths are of class NVL.
constexpr bool is_scale_up(LinkKind kind) { return kind <= LinkKind::kChipLink; }

// The field's path classes (nvidia-smi topo -m, NCCL), ordered best to worst.
enum class PathType : std::uint8_t {
  kLoc,  // the same device
  kNvl,  // NVLink, XGMI, chip links or their switches only
  kPix,  // one PCIe switch
  kPxb,  // several PCIe switches, no host bridge
  kPhb,  // through one socket's host bridge
  kSys,  // across sockets
  kNet,  // across the network
  kDis,  // not connected
};

// What a source says about a device beyond what every device has, as key and value: "gdr" of a NIC, "iommu" of a CPU,
// "at" (its place in a torus) of an accelerator. In order of insertion. A value type.
class Facts {
 public:
  // Empty when there is none.
  std::string_view get(std::string_view key) const;
  void set(std::string_view key, std::string_view value);

  auto begin() const { return facts_.begin(); }
  auto end() const { return facts_.end(); }
  bool empty() const { return facts_.empty(); }
  bool operator==(const Facts&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  std::int32_t node = -1;    // host index, -1 for network switches
  std::int32_t index = 0;    // among the devices of this kind in its node (or in the network)
  std::string model;         // catalogue part, e.g. "H100-SXM5"; may be empty
  std::string bus_id;        // PCI address when known, e.g. "0000:0f:00.0"
  BytesPerSecond port_rate;  // NICs: all ports together towards the network, each direction; 0 when unknown
  Facts facts;

  bool operator==(const Device&) const = default;
};

// A bidirectional link. Rates are per direction and already multiplied by `count`.
struct Link {
  LinkKind kind = LinkKind::kPcie;
  DeviceId a = 0, b = 0;
  BytesPerSecond rate_ab, rate_ba;
  Duration latency;        // one traversal, including the device at its end
  std::int32_t count = 1;  // physical links (NVLink) or lanes (PCIe)

  bool operator==(const Link&) const = default;
};

// One link in one direction.
struct Hop {
  LinkId link = 0;
  bool forward = true;  // a to b

  bool operator==(const Hop&) const = default;
};

struct Path {
  PathType type = PathType::kDis;
  std::vector<Hop> hops;
  BytesPerSecond rate;  // of the slowest hop; unlimited (0 hops) is reported as infinity
  Duration latency;     // sum over the hops
};

// How a network picks one of several equally short ways.
struct Routing {
  enum class Policy : std::uint8_t {
    kEcmp,      // by a hash of the two NICs and the seed
    kShortest,  // always the first: what a network without multipath does
    kAdaptive,  // the one with the fewest pairs on it so far: the answer depends on what was asked before
  };
  Policy policy = Policy::kEcmp;
  std::uint64_t seed = 0;
  // PXN: towards a NIC of another rail, a GPU hands its data over NVLink to the peer beside its own NIC of that rail.
  bool pxn = false;

  bool operator==(const Routing&) const = default;
};

std::string_view name(DeviceKind kind);
std::string_view name(LinkKind kind);
std::string_view name(PathType type);           // "NVL", "PIX", …
std::string_view name(Routing::Policy policy);  // "ecmp", "shortest", "adaptive"
std::optional<Routing::Policy> policy_named(std::string_view text);

// A machine or a cluster: devices, links, and which devices the ranks sit on. A value type.
class Topology {
 public:
  std::string title;  // e.g. "dgx-h100:nodes=16,net=ib-ndr"
  Routing routing;

  DeviceId add(Device device);
  // Requires: the device is there.
  void set_port_rate(DeviceId id, BytesPerSecond rate) { devices_[static_cast<std::size_t>(id)].port_rate = rate; }
  void set_model(DeviceId id, std::string_view model) { devices_[static_cast<std::size_t>(id)].model = model; }
  void set_fact(DeviceId id, std::string_view key, std::string_view value);
  // Requires: valid, different devices; both rates > 0 are checked by validate(), not here.
  LinkId connect(Link link);

  std::span<const Device> devices() const { return devices_; }
  std::span<const Link> links() const { return links_; }
  // In the order in which they were added.
  std::span<const DeviceId> devices_of(DeviceKind kind) const { return by_kind_[static_cast<std::size_t>(kind)]; }
  const Device& device(DeviceId id) const { return devices_[static_cast<std::size_t>(id)]; }
  const Link& link(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }

  // The links at one device.
  std::span<const LinkId> links_of(DeviceId id) const { return adjacency_[static_cast<std::size_t>(id)]; }
  DeviceId other_end(LinkId link, DeviceId from) const;

  // Devices that ranks sit on, in rank order: GPUs by (node, index); cores on a machine without GPUs.
  std::vector<DeviceId> endpoints() const;
  std::int32_t nodes() const { return nodes_; }

  // "gpu3", or "node2/gpu3" when there is more than one node.
  std::string name_of(DeviceId id) const;

  // Errors (bad input): no endpoint, a link with rate <= 0, endpoints that cannot reach each other.
  Status validate() const;

  bool operator==(const Topology&) const = default;

 private:
  std::vector<Device> devices_;
  std::vector<Link> links_;
  std::vector<std::vector<LinkId>> adjacency_;
  std::array<std::vector<DeviceId>, kDeviceKinds> by_kind_;
  std::int32_t nodes_ = 0;
};

}  // namespace weft::topology
