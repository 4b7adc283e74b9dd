#pragma once

#include <string_view>

namespace weft::doctor {

// What a line is of a Python traceback: its first line, a frame with its source, the exception that ends it, or
// nothing. A logger's head stands before each of them where a server prints tracebacks through its logger, as vLLM
// does.
enum class TracebackPart { kNone, kBegin, kFrame, kException };
TracebackPart traceback_part(std::string_view line);

}  // namespace weft::doctor
