#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::training {

// Of a condition of a shell script: kUnknown where only the running script can say.
enum class Truth : std::uint8_t { kNo, kYes, kUnknown };

// Tells whether a value still names a variable or a command that only the running script knows.
inline bool left_to_the_shell(std::string_view value) {
  return value.find('$') != std::string_view::npos || value.find('`') != std::string_view::npos;
}

// "[ -n X ]", "[[ A == B && … ]]", "test A -gt 3", whose words are expanded.
Truth shell_test(std::vector<std::string> words);

}  // namespace weft::training
