#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace weft::cli {

// A check of options that are numbers: "--ranks: -1: at least 0".
CLI::Validator at_least(std::int64_t least);

}  // namespace weft::cli
