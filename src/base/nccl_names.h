#pragma once

#include <map>
#include <string>

#include "base/env.h"

namespace weft::env {

// The NCCL_* variables that weft understands, or knows that it cannot honour.
std::span<const std::string_view> nccl_names();

// What these variables mean in weft's own words, where weft's own variable does not say otherwise: changes `settings`,
// and leaves a sentence per variable, except for those of the log that are understood, in settings.nccl_understood or,
// if it cannot be honoured, in nccl_ignored. A variable of NCCL's with a value that NCCL does not know is one that
// cannot be honoured.
void apply_nccl_names(const std::map<std::string, std::string>& nccl, Settings& settings);

}  // namespace weft::env
