#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/cli/check_settle.h"
#include "apps/doctor/tables.h"

namespace weft::cli {

struct CheckAnswer {
  int status = 0;       // of the command
  nlohmann::json json;  // weft.check/1
};

// Holds a table against the model of its machine, and prints the answer unless spec.json is "-". `own_columns`: what of
// a table with columns of its own is judged, in words. Errors (bad input): the table contradicts itself or the options,
// or no machine is known.
Result<CheckAnswer> check_table(const CheckSpec& spec, std::string_view text, doctor::PerfTable read,
                                std::string own_columns);

}  // namespace weft::cli
