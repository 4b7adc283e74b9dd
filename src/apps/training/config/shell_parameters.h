#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::training {

// What ${NAME…} does to a value, for the operators behind the name: "#x", "##x", "%x", "%%x", "/x/y", "//x/y", "/#x/y",
// "/%x/y", "^", "^^", ",", ",,". Patterns are the shell's. None: no such operator.
std::optional<std::string> changed_value(const std::string& value, std::string_view operation);

// Characters of "${NAME:offset:length}"; negative numbers count from the end. No length: up to the end. Empty where the
// offset lies beyond the ends.
std::string part_of(const std::string& value, std::int64_t offset, std::optional<std::int64_t> length);

}  // namespace weft::training
