#include "apps/cli/replay.h"

#include <algorithm>
#include <filesystem>

#include "apps/cli/commands.h"
#include "apps/cli/rehearse.h"
#include "base/counted.h"
#include "base/text.h"
#include "base/text_file.h"
#include "model/replay/run.h"

namespace weft::cli {
namespace {

constexpr const char* kExamples = R"(
A program's one-sided operations (weft::pgas, OpenSHMEM) are recorded where it runs, and timed on a machine that is not here:
  WEFT_PGAS_TRACE=trace weft run -n 8 -- ./program
  weft replay trace --on dgx-h100
or at once:
  weft run -n 8 --sim dgx-h100 -- ./program

A trace of torch.profiler, or what weftcomm rehearse --keep recorded, is timed on another machine, too (docs/rehearse.md):
  weft replay trace-0.json trace-1.json --on dgx-h200
  weft replay workload.*.et --groups comm_group.json --on dgx-h100:nodes=2      Chakra, as for ASTRA-sim

Data that the program moves by loads and stores through pointers is not seen; neither is what it computes: the time between
operations is taken as it was here, times --compute.
)";

struct Recorded {
  pgas::Program program;
  Duration total;
  std::int64_t operations = 0;
  Bytes bytes = 0;
};

Result<Recorded> read(const std::string& file) {
  Recorded recorded;
  Duration first = Duration::max(), last;
  Rank ranks = 1;
  for (Rank r = 0; r < ranks; ++r) {
    const std::string name = fmt::format("{}.{}", file, r);
    if (r == 0 && !file_exists(name)) return bad_input("{}: no such file, and no {} of a trace", file, name);
    WEFT_TRY(const std::string text, read_text_file(name));
    WEFT_TRY(pgas::RankTrace trace, pgas::parse_trace(name, text));
    if (r == 0) ranks = trace.ranks;
    if (trace.rank != r || trace.ranks != ranks)
      return bad_input("{}: of rank {} of {}, not of rank {} of {}", name, trace.rank, trace.ranks, r, ranks);
    for (const pgas::Event& e : trace.events) {
      ++recorded.operations;
      if (e.peer >= 0) recorded.bytes += e.bytes;
      first = std::min(first, e.begin);
      last = std::max(last, e.end);
    }
    recorded.program.push_back(std::move(trace.events));
  }
  if (recorded.operations > 0) recorded.total = last - first;
  return recorded;
}

void print(const std::string& on, const Recorded& recorded, const replay::Outcome& o) {
  fmt::print("# {} of {}, {} put, got, loaded or stored, on {} (simulated)\n",
             counted(recorded.operations, "operation"), counted(recorded.program.size(), "rank"),
             format_bytes(recorded.bytes), on);
  fmt::print("recorded here  {:>12}\nthere          {:>12}\n", format_duration(recorded.total),
             format_duration(o.total));
  fmt::print("# {:>4} {:>12} {:>12} {:>12} {:>12}\n", "rank", "computing", "moving", "waiting", "collectives");
  constexpr std::size_t kShown = 16;
  for (std::size_t r = 0; r < std::min(o.ranks.size(), kShown); ++r)
    fmt::print("  {:>4} {:>12} {:>12} {:>12} {:>12}\n", r, format_duration(o.ranks[r].computing),
               format_duration(o.ranks[r].moving), format_duration(o.ranks[r].waiting),
               format_duration(o.ranks[r].meeting));
  if (o.ranks.size() > kShown) fmt::print("  … and {} more (--json has all)\n", o.ranks.size() - kShown);
  if (!o.busiest_link.empty()) fmt::print("busiest link   {}, {:.0f} %\n", o.busiest_link, o.busiest_share * 100);
  if (o.unexplained > 0)
    fmt::print("{} waits were ended by plain stores, which are not recorded; no time passes there\n", o.unexplained);
}

nlohmann::json to_json(const std::string& on, const Recorded& recorded, const replay::Outcome& o) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const replay::Spent& s : o.ranks)
    ranks.push_back({{"computing_us", s.computing.us()},
                     {"moving_us", s.moving.us()},
                     {"waiting_us", s.waiting.us()},
                     {"collectives_us", s.meeting.us()}});
  return {{"schema", "weft.replay/1"},
          {"machine", on},
          {"operations", recorded.operations},
          {"bytes", recorded.bytes},
          {"recorded_us", recorded.total.us()},
          {"time_us", o.total.us()},
          {"ranks", ranks},
          {"busiest_link", o.busiest_link},
          {"busiest_share", o.busiest_share},
          {"unexplained_waits", o.unexplained}};
}

}  // namespace

Result<int> replay_trace(const std::string& file, const std::string& on, double compute, const std::string& json) {
  if (!(compute >= 0 && compute <= 1e6)) return bad_input("--compute {}: at least 0", compute);
  WEFT_TRY(const Machine machine, load_machine(on));
  WEFT_TRY(const Recorded recorded, read(file));
  WEFT_TRY(const replay::Outcome outcome, replay::run_on(*machine.view, recorded.program, compute));
  if (json != "-") print(machine.name, recorded, outcome);
  if (!json.empty()) WEFT_CHECK(write_json(json, to_json(machine.name, recorded, outcome)));
  return 0;
}

Command add_replay(CLI::App& app) {
  struct Spec {
    std::vector<std::string> files;
    std::string on, json, groups;
    std::vector<std::string> faults;
    double compute = 1;
  };
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand(
      "replay", "Time a PGAS program's recorded operations, or traces of training ranks, on a modelled machine");
  sub->add_option(
         "trace", spec->files,
         "what WEFT_PGAS_TRACE named: FILE of FILE.0, FILE.1, …; or traces of torch.profiler, traces of "
         "Chakra (PREFIX.0.et), dumps of PyTorch's flight recorder and recordings of weftcomm rehearse, one per "
         "rank")
      ->required();
  sub->add_option("--on", spec->on, "the machine: a preset, a preset with options, or a file (default: this one)");
  sub->add_option("--compute", spec->compute, "the time between operations, as a multiple of what was recorded")
      ->capture_default_str();
  sub->add_option("--groups", spec->groups, "members of the groups of Chakra traces, as ASTRA-sim's comm_group.json");
  sub->add_option("--fault", spec->faults,
                  "of traces and recordings: what is wrong with the machine, as for weft train: nic:3/2=down");
  sub->add_option("--json", spec->json, "write weft.replay/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec]() -> Result<int> {
            if (file_exists(spec->files.front())) {
              if (spec->compute != 1)
                return bad_input("--compute {}: kernels of {} are scaled by their card", spec->compute,
                                 spec->files.front());
              return answer_recordings(spec->files, spec->on, spec->json, spec->groups, spec->faults);
            }
            if (!spec->faults.empty())
              return bad_input("--fault {}: is for traces and recordings of training ranks", spec->faults.front());
            if (!spec->groups.empty()) return bad_input("--groups {}: is for Chakra traces (.et)", spec->groups);
            if (spec->files.size() > 1) return bad_input("{}: no such file", spec->files.front());
            return replay_trace(spec->files.front(), spec->on, spec->compute, spec->json);
          }};
}

}  // namespace weft::cli
