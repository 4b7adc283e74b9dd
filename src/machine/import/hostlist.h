#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::topology {

// Slurm's lists of names: "tux[0-3,07],login" to tux0, tux1, tux2, tux3, tux07, login. Leading zeros are kept; several
// brackets multiply. At most 262,144 names.
// Errors (bad input): a bracket that is not closed, a range that is none or runs backwards, too many names.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

// The shortest such list of these names in their order, runs of consecutive numbers joined.
std::string compress_hostlist(std::span<const std::string> names);

}  // namespace weft::topology
