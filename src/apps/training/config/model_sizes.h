#pragma once

#include <string_view>

#include "apps/training/config/config.h"
#include "apps/training/config/settings.h"

namespace weft::training {

// The model that a file has the sizes of, in Megatron's and NeMo's names. Errors (bad input): no vocabulary, an
// architecture that is none of decoders, sizes that do not fit together.
Status read_model(std::string_view file, const Settings& settings, const ConfigHints& hints, Config& config);

// The catalogue's model of the name that a file has instead of sizes, if there is one.
void name_model(std::string_view file, const Settings& settings, Config& config);

}  // namespace weft::training
