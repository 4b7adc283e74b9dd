#pragma once

#include <string_view>

#include "base/text.h"

namespace weft::cli {

// A message's size, as parse_message; none of no bytes. `what` names the option in the error.
inline Result<Bytes> some_bytes(std::string_view what, std::string_view text) {
  WEFT_TRY(const Bytes bytes, parse_message(what, text));
  if (bytes == 0) return bad_input("{} {}: at least 1 B", what, text);
  return bytes;
}

}  // namespace weft::cli
