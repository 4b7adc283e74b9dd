#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "api/open.h"
#include "base/env.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/rates.h"
#include "cli/replay.h"

namespace weft::cli {
namespace {

struct Spec {
  std::int64_t ranks = 0, machines = 1;
  std::string transport = "shm", sim;
  std::vector<std::string> program;
};

std::string environment_table() {
  std::string text = "\nEnvironment that weft programs read:\n";
  for (const env::Variable& v : env::table())
    text += fmt::format("  {:<16} {:<7} {:<9} {}\n", v.name, v.type, v.fallback, v.meaning);
  return text;
}

Result<int> run_here(const Spec& spec) {
  constexpr std::int64_t kMost = 512;
  if (spec.ranks < 1 || spec.ranks > kMost) return bad_input("-n {} is outside 1 … {}", spec.ranks, kMost);
  WEFT_CHECK(env::check_transport("--transport", spec.transport));
  WEFT_TRY(const env::Settings settings, env::read());
  const std::string& transport = settings.transport.empty() ? spec.transport : settings.transport;
  if (spec.machines < 1 || spec.machines > spec.ranks)
    return bad_input("--machines {} is outside 1 … {}", spec.machines, spec.ranks);
  if (spec.machines > 1 && api::sends_only(transport))
    return bad_input("--machines: shared memory within each, tcp or ucx across (shm+ucx); not {}", transport);
  WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine(transport));
  std::vector<char*> arguments;
  for (const std::string& word : spec.program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return launch(
      static_cast<Rank>(spec.ranks), transport, calibrate::to_text(rates),
      [&](const std::vector<Setting>& given) {
        for (const auto& [name, value] : given) setenv(name.c_str(), value.c_str(), 1);
        execvp(arguments[0], arguments.data());
        fmt::print(stderr, "weft: cannot start {}: {}\n", spec.program[0], std::strerror(errno));
        return 127;
      },
      static_cast<Rank>(spec.machines));
}

// Runs the program here with its one-sided operations recorded in a folder of its own, and then times them there.
Result<int> run_simulated(const Spec& spec) {
  WEFT_TRY(const Machine known, load_machine(spec.sim));  // before anything runs
  std::string folder = (std::filesystem::temp_directory_path() / "weft-trace-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    return failure(Code::kSystem, Blame::kProcess, "{}: {}", folder, std::strerror(errno));
  const std::string trace = folder + "/trace";
  setenv("WEFT_PGAS_TRACE", trace.c_str(), 1);
  Result<int> code = run_here(spec);
  if (code && *code == 0) code = replay_trace(trace, spec.sim, 1, "");
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code;
}

Result<int> run(const Spec& spec) { return spec.sim.empty() ? run_here(spec) : run_simulated(spec); }

}  // namespace

Command add_run(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("run", "Start the ranks of a program on this machine");
  sub->add_option("-n,--ranks", spec->ranks, "how many ranks")->required();
  sub->add_option("--transport", spec->transport,
                  "shm, or tcp or ucx over loopback (WEFT_IFACE: elsewhere); shm+ucx: ucx between --machines")
      ->capture_default_str();
  sub->add_option("--machines", spec->machines, "as if on so many: memory is shared within each, tcp (or ucx) across")
      ->capture_default_str();
  sub->add_option("--sim", spec->sim, "also time its one-sided operations on this machine (weft replay)");
  sub->add_option("program", spec->program, "the program and its arguments, after --")->required();
  sub->footer("\nExamples:\n  weft run -n 4 -- ./trainer --epochs 3\n  weft run -n 2 -- weft bench all_reduce\n" +
              environment_table());
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
