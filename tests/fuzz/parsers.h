#pragma once

#include <string_view>
#include <vector>

namespace weft::fuzz {

// A parser of what users hand to weft. Whatever the text, it returns; what it accepts is a valid machine or schedule.
struct Parser {
  std::string_view name;  // the corpus is in tests/fuzz/corpus/NAME
  void (*run)(std::string_view text);
};

const std::vector<Parser>& parsers();
// Those among them that read what comes over a connection (peers.h, frames.h): they need few modules.
const std::vector<Parser>& peer_parsers();

}  // namespace weft::fuzz
