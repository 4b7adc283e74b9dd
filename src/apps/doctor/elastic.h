#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/doctor/fact.h"

namespace weft::doctor {

// The summary that torch elastic prints behind a failure: blocks of "[1]:", time, host, rank, exitcode and traceback,
// those under "Failures:" and the one under "Root Cause (first observed failure):". The agent ends the other ranks with
// SIGTERM and, 30 s later, SIGKILL: their exit codes are no causes.
class ElasticSummary {
 public:
  void line(std::string_view text, const std::string& file, int number);
  void finish(const Finder& found) const;
  // Files and lines that report a SIGKILL which the agent sent after another rank had failed.
  std::vector<std::pair<std::string, int>> ended_by_agent() const;

  static const std::vector<std::string_view>& words();

 private:
  struct Summary {
    std::string file;
    int first = 0;  // line of the title above the first failure; 0: it has none
    std::string time, host, rank, traceback;
    int exit = 0;
    std::vector<int> killed;  // lines of the others
  };

  std::vector<Summary> summaries_;
  bool in_first_ = false;
};

}  // namespace weft::doctor
