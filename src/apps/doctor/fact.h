#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weft::doctor {

// What a rule has found.
struct Fact {
  std::size_t rule = 0;                        // its number in Evidence::rules
  std::string file, text, host, peer, source;  // source: dmesg, nccl, pytorch, flight-recorder, table, ras, tool
  int line = 0;
  int rank = -1;             // -1: not known
  std::string part;          // of the machine, as parts.h names it; empty: none
  std::string process;       // of NCCL: host, pid and device; empty: not known
  std::string time;          // sortable; empty: none
  std::optional<double> at;  // seconds since 1970, without what the host's clock is ahead
};

// Takes a fact of the rule with this id.
using Finder = std::function<void(std::string_view id, Fact fact)>;

}  // namespace weft::doctor
