#pragma once

#include <string_view>

#include "apps/training/config/config.h"
#include "apps/training/config/settings.h"

namespace weft::training {

// How replicas share parameters, gradients and the optimizer's state: FSDP and its hybrids, Megatron-FSDP, DeepSpeed's
// stage, and DDP where a format names none of them. Fills zero and shard. Errors (bad input): a degree that is no
// count.
Status read_replicas(std::string_view file, const Settings& settings, Config& config);

}  // namespace weft::training
