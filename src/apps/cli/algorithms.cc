#include "apps/cli/commands.h"
#include "plan/collectives/algorithms_page.h"

namespace weft::cli {

Command add_algorithms(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "algorithms", "List every collective and algorithm with its steps and bytes (docs/algorithms.md)");
  sub->footer("\nExamples:\n  weft algorithms\n  weft algorithms > docs/algorithms.md");
  return {sub, []() -> Result<int> {
            fmt::print("{}", collectives::algorithms_page());
            return 0;
          }};
}

}  // namespace weft::cli
