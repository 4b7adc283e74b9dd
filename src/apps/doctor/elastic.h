#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/doctor/fact.h"

namespace weft::doctor {

// The summary that torch elastic prints behind a failure: blocks of "[1]:", time, host, rank, exitcode and traceback,
// those under "Failures:" and the one under "Root Cause (first observed failure):". The agent ends the other ranks with
// SIGTERM and, 30 s later, SIGKILL, and ranks crash when their peers are gone: their exit codes are no causes.
class ElasticSummary {
 public:
  void line(std::string_view text, const std::string& file, int number);
  void finish(const Finder& found) const;
  // Files and lines that report how a rank ended after another one had failed.
  std::vector<std::pair<std::string, int>> not_first() const;
  // The rank and the host that a line of a summary is about; nothing: the line is of no summary.
  struct Place {
    int rank = -1;
    std::string host;
  };
  Place place_of(const std::string& file, int line) const;

  static const std::vector<std::string_view>& words();

 private:
  struct Block {  // of one rank
    std::string time, host, rank, traceback;
    int exit = 0, begin = 0, end = 0;  // lines
  };
  struct Summary {
    std::string file;
    int first = 0;  // line of the title above the first failure; 0: it has none
    Block root;
    std::vector<Block> others;
  };

  std::vector<Summary> summaries_;
  bool in_first_ = false;
  Block* traced_ = nullptr;  // the block whose traceback has not ended yet
};

}  // namespace weft::doctor
