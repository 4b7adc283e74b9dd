#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/doctor/fact.h"
#include "base/result.h"
#include "exec/recorder/timeline.h"

namespace weft::doctor {

// Timelines that weft's ranks left (WEFT_TRACE), compared within each communicator: W33 is a rank for which the others
// wait, W34 a rank whose trace breaks off while others' do not.
class Traces {
 public:
  static bool is_trace(std::string_view text);  // its first lines name weft.trace/1
  // Errors (bad input): as recorder::merge_traces.
  Status add(const std::string& file);
  void finish(const Finder& found) const;

 private:
  struct OfRank {
    recorder::RankTimes times;
    std::string file;
    double span = 0;  // microseconds, from its first event to its last
  };
  using Name = std::pair<std::string, std::string>;  // job, communicator
  std::map<Name, std::vector<OfRank>> communicators_;
};

}  // namespace weft::doctor
