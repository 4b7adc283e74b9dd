#pragma once

#include <string>

#include "machine/topology.h"

namespace weft::topology {

// Whether a device may read and write another's memory without a copy through the host, and why or why not.
struct PeerAccess {
  bool possible = false;
  std::string why;  // e.g. "one PCIe switch", "ACS sends peer-to-peer traffic up to the root complex"
};

// GPUDirect RDMA between a GPU and a NIC, GPUDirect P2P between two GPUs, over the best path between them.
//   Possible over scale-up links, over PCIe switches, and over a coherent chip-to-chip link to the CPU. Through a root
//   complex only where the accelerator is known to do it (fact "direct": "phb").
//   Not possible across sockets, with an IOMMU that translates, with ACS on, without the kernel module (nvidia_peermem,
//   dma-buf; fact "peermem" of the CPU), where a dump says gdr=0, or for cards whose vendor switched it off
//   (fact "direct": "no", or "nvlink" for over NVLink only).
//   Facts "p2p" (between GPUs) and "gdr" (with NICs) of the CPU are NCCL's levels, "loc" to "sys": no path that is
//   farther, and root complexes and sockets as far as the level.
// Requires: both devices in one node; `path` as Routes finds it before any staging.
PeerAccess peer_access(const Topology& topology, DeviceId a, DeviceId b, const Path& path);

// The first value of a fact among the CPUs of a node: "iommu", "acs", "peermem". Time: O(devices given).
std::string_view host_fact(const Topology& topology, std::span<const DeviceId> node, std::string_view key);

}  // namespace weft::topology
