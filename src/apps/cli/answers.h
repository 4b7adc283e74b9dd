#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::cli {

// The JSON that `weft ARGUMENTS... --json -` writes, without a process and without printing: bench on a machine named
// by
// --on, explain, verify, schedule, topo, train, doctor, accuracy. A failed proof and a finding are answers. Errors: as
// the command; bad input also for other commands.
Result<nlohmann::json> answer(const std::vector<std::string>& arguments);

// The picture that `weft ARGUMENTS... --svg FILE` would draw: schedule, topo (with --heat -: the heat map, with
// --stairs -: the rates from GPU memory to the spine). Errors: as answer().
Result<std::string> picture(const std::vector<std::string>& arguments);

}  // namespace weft::cli
