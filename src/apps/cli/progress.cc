#include "apps/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace weft::cli {

void Progress::show(const std::string& text) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r{:<78}\r{}", "", text);
  std::fflush(stderr);
}

}  // namespace weft::cli
