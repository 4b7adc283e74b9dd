#include "apps/cli/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/commands.h"
#include "apps/cli/fit.h"
#include "apps/cli/help.h"
#include "apps/cli/named_option.h"
#include "apps/cli/number_options.h"
#include "apps/cli/rehearse.h"
#include "apps/cli/terminal.h"
#include "apps/cli/version.h"
#include "base/text.h"

namespace weft::cli {
namespace {

constexpr const char* kFooter = R"(
Sizes: 8, 64K, 1M, 1.5G and 64KiB are binary (1M is 1048576), as in nccl-tests; 64KB and 1MB are decimal (1MB is
1000000), as in coreutils. Exit: 0 done, 1 the answer is bad, 2 bad input. `weft COMMAND --help` has examples.

Begin with:
  weft explore                              a ring on four GPUs, in a browser
  weft bench all_reduce --on dgx-h100       what a collective takes on a machine that is not here
  weft train llama3-8b --on dgx-h100 --zero 3   how long a training step takes, and what limits it
)";

// `weft`, `weft help`, `weft help COMMAND`, `weft version`: as --help and --version say it.
std::vector<std::string> meant(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return {"--help"};
  if (words.front() == "version" && words.size() == 1) return {"--version"};
  if (words.front() == "-V" && words.size() == 1) return {"--version"};
  if (words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"weft: communication between GPUs, run, simulated, proved and explained from one schedule"};
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  const Command commands[] = {add_bench(app),      add_explain(app),   add_verify(app),   add_schedule(app),
                              add_algorithms(app), add_topo(app),      add_catalog(app),  add_place(app),
                              add_run(app),        add_replay(app),    add_kv(app),       add_ps(app),
                              add_trace(app),      add_calibrate(app), add_accuracy(app), add_train(app),
                              add_serve(app),      add_fit(app),       add_advise(app),   add_doctor(app),
                              add_check(app),      add_explore(app),   add_reshard(app),  add_rehearse(app),
                              add_completion(app), add_run_agent(app)};
  dress_help(app);
  check_numbers(app);
  app.name("weft");
  try {
    std::vector<std::string> words = meant(argc, argv);
    std::ranges::reverse(words);  // CLI11 takes them from the end
    app.parse(std::move(words));
  } catch (const CLI::Success& wish) {  // --help, --version
    return app.exit(wish);
  } catch (const CLI::ParseError& problem) {
    fmt::print(stderr, "weft: {}\n", shown(usage_error(app, problem, argc, argv)));
    return kBadInput;
  }
  int code = kBadInput;
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    // Libraries throw (memory, JSON, streams): the command ends with a line, never by std::terminate.
    try {
      const std::string& name = command.app->get_name();
      fit_stdout();
      const bool quiet = name != "run" && name != "run-agent" && name != "explore" && name != "completion";
      const std::optional<AtWork> at_work =
          quiet ? std::optional<AtWork>(std::in_place, command.app->get_description()) : std::nullopt;
      const Result<int> done = command.run();
      if (done) {
        code = *done;
      } else {
        Error problem = done.error();
        problem.message = with_option(*command.app, problem.message);
        code = report_error(problem);
      }
    } catch (const std::bad_alloc&) {
      code = report_error({Code::kNoResources, Blame::kInput, "out of memory"});
    } catch (const std::exception& problem) {
      code = report_error({Code::kInternal, Blame::kInput, problem.what()});
    }
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code != kBadInput)
    return report_error(
        {Code::kSystem, Blame::kInput, std::string("cannot write standard output: ") + std::strerror(errno)});
  return code;
}

}  // namespace weft::cli
