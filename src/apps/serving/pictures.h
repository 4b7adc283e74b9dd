#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/serving/engine.h"
#include "base/report/serve.h"

namespace weft::serving {

// A run of engines over time: iterations of each that read prompts or decode, requests that wait and that decode, how
// full the cache is. Requires: a recorded run.
std::string run_svg(const Run& run, const report::ServeReport& report);

// Output tokens/s per GPU over those per user: plans at their best load, and the points that no other beats.
std::string frontier_svg(const report::ServeReport& report);

// Chrome's trace format (Perfetto): a process per engine with its iterations and counters, and the phases of requests;
// those beyond the first few thousand are left out, which it says. Requires: a recorded run.
nlohmann::json run_timeline(const Run& run);

}  // namespace weft::serving
