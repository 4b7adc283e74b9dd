#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "cli/commands.h"
#include "cli/version.h"

// The weft command: reads the command line, runs one command, turns errors into one line and an exit code.
int main(int argc, char** argv) {
  using namespace weft;
  CLI::App app{"weft: communication between GPUs, run, simulated, proved and explained from one schedule"};
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  app.footer(
      "\nSizes accept 8, 64K, 1M, 1G (binary). Exit: 0 done, 1 the answer is bad, 2 bad input.\n`weft COMMAND --help` "
      "has examples.");
  const cli::Command commands[] = {cli::add_bench(app),    cli::add_explain(app),    cli::add_verify(app),
                                   cli::add_schedule(app), cli::add_algorithms(app), cli::add_topo(app),
                                   cli::add_catalog(app),  cli::add_place(app),      cli::add_run(app),
                                   cli::add_replay(app),   cli::add_kv(app),         cli::add_ps(app),
                                   cli::add_trace(app),    cli::add_calibrate(app),  cli::add_accuracy(app),
                                   cli::add_train(app),    cli::add_doctor(app),     cli::add_check(app),
                                   cli::add_explore(app),  cli::add_completion(app), cli::add_run_agent(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wish) {  // --help, --version
    return app.exit(wish);
  } catch (const CLI::ParseError& problem) {
    if (argc > 1 && argv[1][0] != '-' &&
        app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == argv[1]; }).empty())
      fmt::print(stderr, "weft: unknown command '{}' (weft --help)\n", argv[1]);
    else
      fmt::print(stderr, "weft: {} (weft --help)\n", problem.what());
    return cli::kBadInput;
  }
  int code = cli::kBadInput;
  for (const cli::Command& command : commands) {
    if (!command.app->parsed()) continue;
    // Libraries throw (memory, JSON, streams): the command ends with a line, never by std::terminate.
    try {
      const Result<int> done = command.run();
      code = done ? *done : cli::report_error(done.error());
    } catch (const std::bad_alloc&) {
      code = cli::report_error({Code::kNoResources, Blame::kInput, "out of memory"});
    } catch (const std::exception& problem) {
      code = cli::report_error({Code::kInternal, Blame::kInput, problem.what()});
    }
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code != cli::kBadInput)
    return cli::report_error(
        {Code::kSystem, Blame::kInput, std::string("cannot write standard output: ") + std::strerror(errno)});
  return code;
}
