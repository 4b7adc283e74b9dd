#pragma once

#include <CLI/CLI.hpp>
#include <cctype>
#include <string>

#include "base/text.h"

namespace weft::cli {

// For options that count tokens: "8K" and "128K" are 8192 and 131072, as sizes are elsewhere.
inline CLI::Validator tokens() {
  return CLI::Validator(
      [](std::string& text) {
        if (text.empty() || std::isalpha(static_cast<unsigned char>(text.back())) == 0) return std::string();
        const auto count = parse_bytes(text);
        if (!count || text.back() == 'B') return fmt::format("'{}' is no number of tokens like 8192 or 8K", shown(text));
        text = std::to_string(*count);
        return std::string();
      },
      "", "tokens");
}

}  // namespace weft::cli
