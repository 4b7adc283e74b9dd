#pragma once

#include <string>
#include <vector>

namespace weft::explore {

// One generation of a kind of link, as a row of the tour's tables.
struct Generation {
  std::string family;           // "PCIe", "NVLink", "InfiniBand", "RoCE", "Ethernet"
  std::string title, year, of;  // of: what the rate is of: "16 lanes", "18 links of 25 GB/s", "a port of 400 Gb/s"
  double GBps = 0;              // each way
  std::string source, date;
};

// Those of the catalogue, every family from its first generation on.
std::vector<Generation> generations();

}  // namespace weft::explore
