#pragma once

#include <optional>
#include <string_view>

#include "apps/doctor/tables.h"

namespace weft::doctor {

// A table in one of three JSON forms: what nccl-tests writes with -J ("results"), the form of its pull request 318
// ("benchmark", sizes as keys), and what rccl-tests writes with -Z json (one object a line). Nothing: the text is none.
std::optional<PerfTable> read_json_table(std::string_view text);

}  // namespace weft::doctor
