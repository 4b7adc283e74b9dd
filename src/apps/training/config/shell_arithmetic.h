#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::training {

// The value of integers joined by + - * / % and parentheses, as a shell's $(( )) computes it. None: anything else, a
// division by zero, an overflow of 64 bits.
std::optional<std::int64_t> arithmetic(std::string_view text);

}  // namespace weft::training
