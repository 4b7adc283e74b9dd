#pragma once

#include <vector>

#include "machine/routes.h"

namespace weft::tune::nccl {

// The GPUs of one node with the bandwidths that NCCL ascribes to what joins them.
class Node {
 public:
  // `sm`: compute capability, which sets an NVLink's rate. Requires: GPUs of one node.
  Node(const topology::Topology& topology, const topology::Routes& routes, std::vector<topology::DeviceId> gpus,
       int sm);

  // How many rings over all GPUs, at most `most`, fit at this speed (GB/s) at the same time; `nvlink`: over NVLink
  // only. Their search is given up after as many steps as NCCL's.
  int rings(double speed, int most, bool nvlink) const {
    return static_cast<int>(ring_orders(speed, most, nvlink).size());
  }
  // The same rings: indices of GPUs, in the order in which they are visited.
  std::vector<std::vector<std::size_t>> ring_orders(double speed, int most, bool nvlink) const;

  // The NVLinks between the two GPUs that have the fewest; 0: not all are joined by NVLink.
  int fewest_nvlinks(int sm) const;
  // The rate out of a GPU over NVLink, else over PCIe; GB/s.
  double port() const { return port_; }
  double rate(topology::LinkId link) const { return rates_[static_cast<std::size_t>(link)]; }

 private:
  struct Way {
    bool nvlink = false;
    std::vector<std::int32_t> links;  // 2 * link + direction
  };
  struct Attempt;
  const Way& way(std::size_t from, std::size_t to) const { return ways_[from * gpus_.size() + to]; }
  std::vector<std::size_t> unvisited(const Attempt& attempt, std::size_t at) const;
  bool repeat(Attempt& attempt, const std::vector<std::size_t>& order) const;
  bool extend(Attempt& attempt, std::size_t at) const;
  static bool take(std::vector<double>& free, const Way& way, double speed);

  std::vector<topology::DeviceId> gpus_;
  std::vector<double> rates_;  // by link, each direction
  std::vector<Way> ways_;
  double port_ = 0;
};

}  // namespace weft::tune::nccl
