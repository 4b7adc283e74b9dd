#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// "row" for 1, else "rows"; of words in several parts ("NVLink port") the last one. "switch", "leaf", "entry" and their
// like as English has them.
std::string plural(std::int64_t count, std::string_view word);
// "1 row", "2 rows"
std::string counted(std::int64_t count, std::string_view word);

}  // namespace weft
