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
        if (!count || text.back() == 'B')
          return fmt::format("'{}' is no number of tokens like 8192 or 8K", shown(text));
        text = std::to_string(*count);
        return std::string();
      },
      "", "tokens");
}

// For options that count tokens of a whole run: "15T", "300B", "1.5T" are decimal, as papers write them; "15e12" too.
inline CLI::Validator tokens_of_a_run() {
  return CLI::Validator(
      [](std::string& text) {
        constexpr std::string_view kUnits = "KMBT";
        double count = 0;
        const auto [rest, error] = read_number(text, count);
        const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
        if (error != std::errc{} || unit.size() > 1)
          return fmt::format("'{}' is no number of tokens like 300B, 15T or 15e12", shown(text));
        if (unit.empty()) return std::string();
        const auto power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
        if (power == std::string_view::npos)
          return fmt::format("'{}' is no number of tokens like 300B, 15T or 15e12", shown(text));
        for (std::size_t i = 0; i <= power; ++i) count *= 1000;
        text = fmt::format("{}", count);
        return std::string();
      },
      "", "tokens of a run");
}

}  // namespace weft::cli
