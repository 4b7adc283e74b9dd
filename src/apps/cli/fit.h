#pragma once

#include "apps/cli/common.h"

namespace weft::cli {

// `weft fit MODEL GPU`: declares its options under `app`.
Command add_fit(CLI::App& app);

}  // namespace weft::cli
