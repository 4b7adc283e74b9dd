#pragma once

#include "apps/cli/common.h"
#include "plan/schedule/exchange/written.h"

namespace weft::cli {

// Which schedule a command is about: an algorithm written out, or a file.
struct ScheduleSource {
  std::string what;  // a collective, or a file that ends in .xml or .json
  std::string algorithm;
  std::int64_t ranks = 8, root = 0, per_node = 0, channel = 0;
  bool staged = false;

  bool is_file() const { return schedule::names_file(what); }
  void add_options(CLI::App& app);
  // Errors (bad input): a number out of range, an unknown algorithm, a file that is wrong.
  Result<schedule::Document> load() const;
};

}  // namespace weft::cli
