#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "plan/cost/limit.h"
#include "plan/tune/tune.h"

namespace weft::cli {

// `weft explain` of a range of sizes: a line per size, with what is chosen and what comes second.
struct ExplainedSize {
  Bytes bytes = 0;
  const std::vector<tune::Candidate>& all;
  Duration time;  // of the chosen one: simulated, or predicted
  const cost::Limit& limit;
};

void print_sizes_header(std::string_view collective, std::string_view type, Rank ranks, std::string_view machine,
                        bool simulated);
void print_size(const ExplainedSize& size);

}  // namespace weft::cli
