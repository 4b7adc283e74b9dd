#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace weft::recorder {

// What a process's TCP connections have carried over one interface, as the kernel counts it.
struct Rail {
  std::string interface;
  int connections = 0;
  std::int64_t out = 0, in = 0;  // bytes that the peer has acknowledged, and that have come
  double speed = 0;              // bits per second in each direction, as the driver says; 0: it does not
  std::int64_t most() const { return std::max(out, in); }
  bool operator==(const Rail&) const = default;
};

// As timelines and their summary have it. from_json throws json::exception where a member is missing or no number.
void to_json(nlohmann::json& json, const Rail& rail);
void from_json(const nlohmann::json& json, Rail& rail);

// By interface, in the order of their names; of all TCP connections that the process holds, those of its program
// included. Nothing where it has none or may not be looked into.
std::vector<Rail> rails_of(int pid);

// With the network devices of this machine that are up, have an address and carried none of it, behind the others.
// Bridges and the like, which are no devices, are left out. `rails` as they are where nothing left this machine.
std::vector<Rail> with_idle(std::vector<Rail> rails);

// Were the best links used: seconds that the busiest link needed at its speed, and that all links together need for the
// same bytes, each with a share by its speed. Of a link counts the direction that carried more.
struct RailUse {
  std::int64_t bytes = 0;
  bool known = true;  // all speeds are; else the seconds mean nothing
  double took = 0, least = 0;
};
RailUse use_of(const std::vector<Rail>& rails);

}  // namespace weft::recorder
