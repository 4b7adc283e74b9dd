#include "apps/cli/command_line.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "apps/cli/commands.h"
#include "apps/cli/fit.h"
#include "apps/cli/rehearse.h"
#include "apps/cli/version.h"
#include "base/text.h"

namespace weft::cli {

int run_command_line(int argc, char** argv) {
  CLI::App app{"weft: communication between GPUs, run, simulated, proved and explained from one schedule"};
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  app.footer(
      "\nSizes accept 8, 64K, 1M, 1G (binary). Exit: 0 done, 1 the answer is bad, 2 bad input.\n`weft COMMAND --help` "
      "has examples.");
  const Command commands[] = {
      add_bench(app),   add_explain(app), add_verify(app),   add_schedule(app),   add_algorithms(app),
      add_topo(app),    add_catalog(app), add_place(app),    add_run(app),        add_replay(app),
      add_kv(app),      add_ps(app),      add_trace(app),    add_calibrate(app),  add_accuracy(app),
      add_train(app),   add_serve(app),   add_fit(app),      add_doctor(app),     add_check(app),
      add_explore(app), add_reshard(app), add_rehearse(app), add_completion(app), add_run_agent(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wish) {  // --help, --version
    return app.exit(wish);
  } catch (const CLI::ParseError& problem) {
    if (argc > 1 && argv[1][0] != '-' &&
        app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == argv[1]; }).empty())
      fmt::print(stderr, "weft: unknown command '{}' (weft --help)\n", shown(argv[1]));
    else
      fmt::print(stderr, "weft: {} (weft --help)\n", shown(problem.what()));
    return kBadInput;
  }
  int code = kBadInput;
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    // Libraries throw (memory, JSON, streams): the command ends with a line, never by std::terminate.
    try {
      const Result<int> done = command.run();
      code = done ? *done : report_error(done.error());
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
