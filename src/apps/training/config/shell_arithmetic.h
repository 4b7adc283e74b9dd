#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weft::training {

// Variables, as a shell's arithmetic asks for them. `name`: "N", or "N[…]" of an array's element.
struct ShellNumbers {
  std::function<std::optional<std::string>(const std::string& name)> text = {};  // empty: no name has a value
  std::function<void(const std::string& name, std::int64_t value)> assign = {};  // empty: assignments are left out
};

// The value of an expression as $(( )), (( )) and let compute it: C's operators, **, assignments, ?:, commas, numbers
// as 12, 0x1f, 017 and 2#101. None: a name without a value that the result depends on, anything that is no such
// expression, a division by zero, an overflow of 64 bits.
std::optional<std::int64_t> arithmetic(std::string_view text, const ShellNumbers& numbers = {});

}  // namespace weft::training
