#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/training/config/settings.h"

namespace weft::training {

// Puts the names of Megatron-LM, DeepSpeed and Hugging Face in the place of those of other frameworks, as
// data/training/config_formats.json says. Returns the framework's name; empty: the settings are of none of them.
// `assumed`: gets what of the file is left out because it is other work than the training of this model.
std::string translate(std::string_view text, Settings& settings, std::vector<std::string>& assumed);

}  // namespace weft::training
