#include "apps/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "apps/cli/common.h"
#include "apps/cli/terminal.h"

namespace weft::cli {

void Progress::show(const std::string& text) {
  if (isatty(STDERR_FILENO) == 0) return;
  note_output();
  const auto width = static_cast<std::size_t>(std::min(terminal_width() - 1, 78));
  fmt::print(stderr, "\r{:<{}}\r{}", "", width, text.substr(0, width));
  std::fflush(stderr);
}

}  // namespace weft::cli
