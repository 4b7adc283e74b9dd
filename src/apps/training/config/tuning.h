#pragma once

#include "apps/training/config/config.h"
#include "apps/training/config/settings.h"

namespace weft::training {

// Types of gradients and of the optimizer's state: DeepSpeed's and Megatron-LM's switches.
void read_state_types(const Settings& settings, Config& config);
// Methods that train a part of the weights, and defaults of frameworks that change the step.
void read_tuning(const Settings& settings, Config& config);

}  // namespace weft::training
