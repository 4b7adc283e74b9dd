#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::cli {

// What `weft ARGUMENTS... --json -` would write, without a process and without printing: bench on a machine named by
// --on, explain, verify, doctor. A failed proof is an answer. Errors: as the command; bad input also for other
// commands.
Result<nlohmann::json> answer(const std::vector<std::string>& arguments);

}  // namespace weft::cli
