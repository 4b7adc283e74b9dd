#pragma once

#include <string>
#include <string_view>

#include "apps/training/config/config.h"
#include "apps/training/config/settings.h"

namespace weft::training {

struct Recognised {
  std::string format;  // as Config::format
  Settings settings;
};

// Which format a file has, and what it sets, with the files that it names (companions.h). `config`: gets assumptions.
// Errors (bad input): none of the formats; a broken file, with line and column.
Result<Recognised> recognised(std::string_view file, std::string_view text, const ConfigHints& hints, Config& config);

}  // namespace weft::training
