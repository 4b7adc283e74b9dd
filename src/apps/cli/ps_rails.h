#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace weft::cli {

// What a process's TCP connections have carried over one interface, as the kernel counts it.
struct Rail {
  std::string interface;
  int connections = 0;
  std::int64_t out = 0, in = 0;  // bytes that the peer has acknowledged, and that have come
  bool operator==(const Rail&) const = default;
};

// By interface, in the order of their names; of all TCP connections that the process holds, those of its program
// included. Nothing where it has none or may not be looked into.
std::vector<Rail> rails_of(int pid);

}  // namespace weft::cli
