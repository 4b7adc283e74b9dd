#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weft::launch {

// A host and the ranks that start there, which are consecutive.
struct HostRanks {
  std::string name;  // as ssh takes it: "node1", "user@10.0.0.2", "fe80::1%eth0"
  Rank ranks = 0;    // 0: not given

  bool operator==(const HostRanks&) const = default;
};

// "a:4,b:4", "user@a", "[fe80::1]:4". A host that stands there twice has the sum of its ranks. Errors (bad input): the
// part that is no host, a number of ranks that is none.
Result<std::vector<HostRanks>> parse_hosts(const std::string& list);

// The same from a file with one host a line: "name", "name:4" or "name slots=4"; # begins a comment. Errors (bad
// input): the file with the line's number.
Result<std::vector<HostRanks>> read_hostfile(const std::string& path);

// The hosts in use, each with its number of ranks. `ranks` 0: what the hosts say, one where they say nothing. Otherwise
// the first `ranks` of these places, in order, or, if no host gives a number, `ranks` spread evenly. Errors (bad
// input): more ranks than places.
Result<std::vector<HostRanks>> place_ranks(const std::vector<HostRanks>& hosts, Rank ranks);

}  // namespace weft::launch
