#pragma once

#include <string>

namespace weft::cli {

// On a terminal, one line of stderr says what is being worked on; elsewhere nothing is written. The line is taken away
// when this ends.
class Progress {
 public:
  static void show(const std::string& text);
  ~Progress() { show(""); }
};

}  // namespace weft::cli
