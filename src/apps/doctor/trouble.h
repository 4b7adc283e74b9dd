#pragma once

#include <span>
#include <string_view>

namespace weft::doctor {

// Words of which one is in each line that trouble_of may call trouble.
std::span<const std::string_view> trouble_words();

// How a line that no rule knows reads: kFatal ends a process (an exception, an abort, FATAL), kError and kWarning are
// what its severity says. kNone: everyday lines, such as "0 errors" or "error handling enabled".
enum class Trouble { kNone, kWarning, kError, kFatal };
Trouble trouble_of(std::string_view line);

}  // namespace weft::doctor
