#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace weft::cli {

// The numbers that an option of a command takes, both ends included.
struct NumberRange {
  double low = 0, high = 0;
  bool whole = false;
};

// The range of an option that takes a number; nothing: it takes none.
std::optional<NumberRange> range_of(const CLI::App& command, const CLI::Option& option);

// Refuses what lies outside of the range of its option (NaN and infinity always do), in every command of the app, with
// the option's name and the range, and empty values of other options. Requires: every command has been added.
void check_numbers(CLI::App& app);

}  // namespace weft::cli
