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

}  // namespace weft::fuzz
