#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/fact.h"

namespace weft::doctor {

// The report of NCCL's RAS (ncclras, port 28028): which ranks are behind, unreachable or dead. Operation counts differ
// in every busy job; they are a fault if a second reading of one communicator shows the same counts.
class Ras {
 public:
  // Reads lines in their order. True: a line of a report.
  bool line(std::string_view text, const std::string& file, int number);
  void finish(const Finder& found) const;

 private:
  struct Reading {
    std::map<int, std::int64_t> counts;  // of the ranks that the report names
    std::map<int, Fact> facts;
    std::int64_t most = 0;
  };
  void close();

  std::map<std::string, std::vector<Reading>> readings_;  // by communicator, and by operation where it is named
  std::string communicator_, status_, operation_;
  Reading open_;
  std::int64_t count_ = -1;                         // of the ranks listed next; -1: none is
  std::vector<std::pair<std::string, Fact>> dead_;  // id of the rule
};

}  // namespace weft::doctor
