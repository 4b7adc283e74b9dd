#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// JSON as files of layouts and checkpoints have it: every object names each of its keys once.
namespace weft::reshard {

struct StrictJson {
  nlohmann::json value;            // discarded: the text is no JSON
  std::vector<std::string> twice;  // the way from the root to the first key that its object has twice; empty: none
  std::string error;               // of the parser, if `value` is discarded
};
StrictJson parse_strict_json(std::string_view text);

// Errors (bad input): the text is a pointer that git-lfs writes in place of a large file. Its first bytes suffice.
Status check_no_lfs_pointer(const std::string& file, std::string_view text);

}  // namespace weft::reshard
