#include "apps/cli/progress.h"

#include "apps/cli/terminal.h"

namespace weft::cli {

void Progress::show(const std::string& text) { say_doing(text); }

}  // namespace weft::cli
