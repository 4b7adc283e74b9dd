#pragma once

#include "apps/cli/common.h"

namespace weft::cli {

// `weft rehearse`: recordings of a training script's ranks (weft.rehearsal/1) on a modelled machine.
Command add_rehearse(CLI::App& app);

}  // namespace weft::cli
