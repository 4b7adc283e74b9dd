#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace weft {

// The number that the text begins with: std::from_chars, also where the standard library lacks it for double.
std::from_chars_result read_number(std::string_view text, double& value);

// "8", "64K", "1.5M", "1G", "1T" and "64KiB" (binary, as in nccl-tests) or "64KB" (decimal, as in coreutils) to bytes.
// Errors: not a number, negative, not a whole number of bytes, not representable, or in bits ("1Mb").
Result<Bytes> parse_bytes(std::string_view text);

// The largest message that weft handles: all ranks' traffic still counts in 64 bits.
inline constexpr Bytes kMostMessage = Bytes{1} << 44;
// A message's size, as parse_bytes. `what` names the option in the error. Errors: also more than kMostMessage.
Result<Bytes> parse_message(std::string_view what, std::string_view text);

// A whole number in [low, high]. `what` names the option in the error.
Result<std::int64_t> parse_integer(std::string_view what, std::string_view text, std::int64_t low, std::int64_t high);

// 65536 -> "64 KiB"; not a multiple of a unit -> bytes: "1000 B".
std::string format_bytes(Bytes bytes);

// Three significant digits and a unit: "450 GB/s".
std::string format_rate(BytesPerSecond rate);

// Three significant digits and a unit: "1.25 us".
std::string format_duration(Duration duration);

// Text that came from a file or a peer, for one line on a terminal: control characters and bytes that are no UTF-8 are
// written as \\x1b, so that a name can neither move the cursor nor end the line.
std::string shown(std::string_view text);

// The date in UTC: "2026-11-21".
std::string today();

}  // namespace weft
