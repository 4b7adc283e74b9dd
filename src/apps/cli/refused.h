#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string_view>

#include "base/result.h"

namespace weft::cli {

// An option that is accepted has an effect. Errors (bad input): an option given on the command line that is not among
// `meaningful` (without dashes), as having no meaning for `what`, e.g. "weft bench put --on".
Status only_options(const CLI::App& command, std::string_view what, std::initializer_list<std::string_view> meaningful);

// Errors (bad input): one of `refused` is given, which has no meaning for `what`.
Status no_options(const CLI::App& command, std::string_view what, std::initializer_list<std::string_view> refused);

}  // namespace weft::cli
