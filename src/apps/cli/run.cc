#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "api/calibrate/cpus.h"
#include "api/open.h"
#include "apps/cli/commands.h"
#include "apps/cli/launch.h"
#include "apps/cli/rates.h"
#include "apps/cli/replay.h"
#include "apps/cli/version.h"
#include "apps/launch/agent.h"
#include "apps/launch/on_hosts.h"
#include "base/counted.h"
#include "base/env.h"
#include "base/text.h"

namespace weft::cli {
namespace {

struct Spec {
  std::int64_t ranks = -1, machines = 1;  // -1: not given
  std::string transport, sim;
  std::string hosts, hostfile, folder, command, ssh = "ssh", on_failure = "end", ports, bind;
  std::vector<std::string> variables;
  bool labels = true, labels_here = false, report_bindings = false;
  std::vector<std::string> program;
};

std::string environment_table() {
  std::string text = "\nEnvironment that weft programs read:\n";
  for (const env::Variable& v : env::table())
    text += fmt::format("  {:<16} {:<7} {:<9} {}\n", v.name, v.type, v.fallback, v.meaning);
  return text;
}

// The word auto, as a number of ranks.
std::string as_number(const std::string& text) {
  return text == "auto" ? std::to_string(calibrate::usable_cpus().size()) : text;
}

Status check_ranks(const Spec& spec, std::int64_t most) {
  if (spec.ranks < 1 || spec.ranks > most) return bad_input("-n {} is outside 1 … {}", spec.ranks, most);
  return {};
}

Result<int> run_here(const Spec& spec) {
  constexpr std::int64_t kMost = 512;
  if (spec.ranks == -1) return bad_input("run: -n, the number of ranks, or --hosts is needed");
  WEFT_CHECK(check_ranks(spec, kMost));
  WEFT_CHECK(env::check_transport("--transport", spec.transport));
  WEFT_TRY(const env::Settings settings, env::read());
  const std::string wanted = spec.transport.empty() ? "shm" : spec.transport;
  const std::string& transport = settings.transport.empty() ? wanted : settings.transport;
  if (spec.machines < 1 || spec.machines > spec.ranks)
    return bad_input("--machines {} is outside 1 … {}", spec.machines, spec.ranks);
  if (spec.machines > 1 && api::sends_only(transport))
    return bad_input("--machines: shared memory within each, tcp or ucx across (shm+ucx); not {}", transport);
  WEFT_CHECK(launch::check_program(spec.program[0]));
  WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine(transport));
  std::vector<char*> arguments;
  for (const std::string& word : spec.program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return launch(
      static_cast<Rank>(spec.ranks), transport, calibrate::to_text(rates),
      [&](const std::vector<Setting>& given) {
        for (const auto& [name, value] : given) setenv(name.c_str(), value.c_str(), 1);
        execvp(arguments[0], arguments.data());
        fmt::print(stderr, "weft: cannot start {}: {}\n", shown(spec.program[0]), std::strerror(errno));
        return 127;
      },
      static_cast<Rank>(spec.machines), spec.labels_here);
}

// Runs the program here with its one-sided operations recorded in a folder of its own, and then times them there.
Result<int> run_simulated(const Spec& spec) {
  WEFT_TRY(const Machine known, load_machine(spec.sim));  // before anything runs
  if (spec.ranks > known.view->endpoints())
    return bad_input("-n {}: {} has {}", spec.ranks, known.name, counted(known.view->endpoints(), "rank"));
  std::string folder = (std::filesystem::temp_directory_path() / "weft-trace-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    return failure(Code::kSystem, Blame::kProcess, "{}: {}", folder, std::strerror(errno));
  const std::string trace = folder + "/trace";
  setenv("WEFT_PGAS_TRACE", trace.c_str(), 1);
  Result<int> code = run_here(spec);
  std::error_code ignored;
  if (code && *code == 0) {
    if (std::filesystem::exists(trace + ".0", ignored))
      code = replay_trace(trace, spec.sim, 1, "");
    else
      code = bad_input(
          "--sim {}: {} recorded no one-sided operation; programs of OpenSHMEM, NVSHMEM and weft's windows do",
          spec.sim, shown(spec.program[0]));
  }
  std::filesystem::remove_all(folder, ignored);
  return code;
}

// weft's own variables and NCCL's go to the hosts, and those of --env; but not what places this process in a job.
Result<std::vector<Setting>> environment_of(const Spec& spec) {
  std::vector<Setting> all;
  for (auto& [name, value] : env::starting_with({"WEFT_", "NCCL_"}))
    if (name != "WEFT_RANK" && name != "WEFT_SIZE" && name != "WEFT_ID" && name != "WEFT_JOIN" &&
        name != "WEFT_ARBITER" && name != "WEFT_NODE")
      all.emplace_back(std::move(name), std::move(value));
  for (const std::string& given : spec.variables) {
    const std::size_t equals = given.find('=');
    const std::string name = given.substr(0, equals);
    if (name.empty()) return bad_input("--env '{}' is neither NAME nor NAME=VALUE", given);
    if (equals != std::string::npos)
      all.emplace_back(name, given.substr(equals + 1));
    else if (auto value = env::value_of(name))
      all.emplace_back(name, *value);
    else
      return bad_input("--env {}: it is not set here", name);
  }
  if (!spec.transport.empty()) all.emplace_back("WEFT_TRANSPORT", spec.transport);
  if (!spec.ports.empty()) all.emplace_back("WEFT_PORTS", spec.ports);
  return all;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : line + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

Result<int> run_there(const Spec& spec) {
  constexpr std::int64_t kMost = 4096;
  if (!spec.hosts.empty() && !spec.hostfile.empty()) return bad_input("--hosts and --hostfile: one of them");
  if (spec.machines > 1) return bad_input("--machines is for one host; --hosts names real ones");
  if (!spec.sim.empty()) return bad_input("--sim is for programs on this host");
  if (spec.ranks != -1) WEFT_CHECK(check_ranks(spec, kMost));
  if (spec.on_failure != "end" && spec.on_failure != "wait")
    return bad_input("--on-failure '{}' is neither end nor wait", spec.on_failure);
  WEFT_CHECK(env::check_transport("--transport", spec.transport));
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(auto hosts, spec.hosts.empty() ? launch::read_hostfile(spec.hostfile) : launch::parse_hosts(spec.hosts));
  WEFT_TRY(hosts, launch::place_ranks(hosts, static_cast<Rank>(std::max<std::int64_t>(spec.ranks, 0))));
  const std::string& transport = spec.transport.empty() ? settings.transport : spec.transport;
  if (transport == "shm" && hosts.size() > 1)
    return bad_input("--transport shm: {} share no memory; shm+tcp joins them", counted(hosts.size(), "host"));
  if (spec.ssh.find_first_not_of(' ') == std::string::npos) return bad_input("--ssh: a command is needed");
  launch::HostsJob job{.hosts = std::move(hosts),
                       .program = spec.program,
                       .folder = spec.folder,
                       .command = spec.command,
                       .version = WEFT_VERSION,
                       .ssh = words_of(spec.ssh),
                       .labels = spec.labels,
                       .ends_all = spec.on_failure == "end",
                       .timeout_ms = settings.timeout_ms};
  WEFT_TRY(job.environment, environment_of(spec));
  std::error_code ignored;
  if (job.folder.empty()) job.folder = std::filesystem::current_path(ignored);
  if (job.command.empty()) job.command = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return launch::run_on_hosts(job);
}

Result<int> run(const Spec& spec) {
  if (!spec.bind.empty()) setenv("WEFT_BIND", spec.bind.c_str(), 1);
  if (spec.report_bindings) setenv("WEFT_REPORT_BINDINGS", "1", 1);
  if (!spec.hosts.empty() || !spec.hostfile.empty()) return run_there(spec);
  return spec.sim.empty() ? run_here(spec) : run_simulated(spec);
}

void add_host_options(CLI::App& sub, Spec& spec) {
  sub.add_option("--hosts", spec.hosts, "start ranks on these hosts by ssh: a:4,b:4 or user@a,b with -n");
  sub.add_option("--hostfile", spec.hostfile,
                 "the same from a file: a line `name`, `name:4` or `name slots=4` per host");
  sub.add_option("--folder", spec.folder, "on every host, run in this folder; without: the present one");
  sub.add_option("--env", spec.variables,
                 "also give the ranks NAME=VALUE, or this process's NAME; WEFT_* and NCCL_* are")
      ->allow_extra_args(false);
  sub.add_option("--weft", spec.command, "weft on the hosts; without: at this one's path, or in PATH");
  sub.add_option("--ssh", spec.ssh, "the command that reaches a host")->capture_default_str();
  sub.add_option("--ports", spec.ports, "listen on these ports only: 20000-20100 (WEFT_PORTS)");
  sub.add_option("--on-failure", spec.on_failure,
                 "when a rank fails on --hosts: end the ranks that have neither ended nor shrunk 5 s later, or wait")
      ->capture_default_str();
  sub.add_flag("--label", spec.labels_here, "also on this host, lines come whole and begin with their rank: [3]");
  sub.add_flag("--no-label{false}", spec.labels, "on --hosts, lines do not begin with their rank");
}

// Options that only agents on hosts honour.
Status check_host_options(const CLI::App& sub, const Spec& spec) {
  if (!spec.hosts.empty() || !spec.hostfile.empty()) return {};
  for (const char* name : {"--folder", "--env", "--weft", "--ssh", "--ports", "--on-failure", "--no-label"})
    if (sub.count(name) > 0) return bad_input("run: {} is for ranks on --hosts or --hostfile", name);
  return {};
}

}  // namespace

Command add_run(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("run", "Start the ranks of a program, on this machine or on several hosts");
  sub->positionals_at_end();
  sub->add_option("-n,--ranks,--nproc", spec->ranks,
                  "how many ranks; auto: as many as this process has cores; with --hosts they say it, too")
      ->transform(as_number, "");
  sub->add_option(
      "--transport", spec->transport,
      "shm, or tcp or ucx over loopback (WEFT_IFACE: elsewhere); shm+ucx: ucx between --machines or --hosts; "
      "without: shm, on --hosts shm+tcp");
  sub->add_option("--machines", spec->machines,
                  "as if on this number of machines: memory is shared within each, tcp (or ucx) across")
      ->capture_default_str();
  sub->add_option("--sim", spec->sim, "also time its one-sided operations on this machine (weft replay)");
  sub->add_option("--bind", spec->bind,
                  "processors of each rank: core, numa, nic (of WEFT_IFACE), gpu, none, or lists 0-3:4-7; without: one "
                  "each where there are enough (WEFT_BIND)");
  sub->add_flag("--report-bindings", spec->report_bindings, "print on which processors each rank runs");
  add_host_options(*sub, *spec);
  sub->add_option("program", spec->program, "the program and its arguments; all that follows it is its own")
      ->required();
  sub->footer(
      "\nExamples:\n  weft run -n 4 ./trainer --epochs 3\n  weft run -n 2 weft bench all_reduce\n"
      "  weft run --hosts node1:4,node2:4 ./trainer --epochs 3\n" +
      environment_table());
  return {sub, [spec, sub]() -> Result<int> {
            WEFT_CHECK(check_host_options(*sub, *spec));
            return run(*spec);
          }};
}

Command add_run_agent(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("run-agent", "What weft run --hosts starts on each host");
  sub->group("");  // not listed
  return {sub, []() -> Result<int> {
            if (isatty(STDIN_FILENO) != 0) return bad_input("run-agent: weft run --hosts starts this on each host");
            return launch::run_agent(WEFT_VERSION);
          }};
}

}  // namespace weft::cli
