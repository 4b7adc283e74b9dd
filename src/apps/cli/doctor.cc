#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "apps/cli/commands.h"
#include "apps/cli/doctor_costs.h"
#include "apps/cli/doctor_watch.h"
#include "apps/cli/help.h"
#include "apps/cli/some_bytes.h"
#include "apps/doctor/diagnosis.h"
#include "apps/doctor/probes.h"
#include "base/counted.h"
#include "base/text.h"
#include "machine/detect/record.h"

namespace weft::cli {
namespace {

using report::DoctorFinding;
using report::DoctorReport;

struct Spec {
  std::vector<std::string> paths;
  std::string on, json, bytes, workload;
  double price = 0;
  bool verbose = false, watches = false;
  double interval = 2;
  std::int64_t count = 0;
};

constexpr const char* kExamples = R"(
Says what is wrong with a job from its logs, or with this machine, in at most three root findings, each with its evidence,
a remedy and a command that verifies it. Reads NCCL_DEBUG logs, PyTorch's watchdog lines and flight recorder dumps (JSON),
nccl-tests tables, dmesg, ibstat, nvidia-smi text: files, or folders of them. With --on, a fault that can be replayed is
replayed on that machine, and its cost for an all_reduce is printed. Files may be packed (gz, xz, zst, bz2) and in UTF-16.
Exit 0 if nothing reports trouble (slow paths and settings are advice), 1 if a root was found, or an effect of one, or a
line that reports trouble and that no rule knows, 2 if the input cannot be read.

Examples:
  weft doctor logs/                              all files in a folder
  weft doctor nccl.log dmesg.txt --on dgx-h100:nodes=4
  weft doctor logs/ --on dgx-h100:nodes=16 --workload llama3-70b:tp=8,pp=2,global-batch=512 --price 2
  weft doctor                                    this machine
  weft doctor --watch --count 5                  running jobs beside this machine's counters, five times
)";

// "0-7 9": ranks, with runs of neighbours in short.
std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : " ", ranks[i]);
    if (end > i) text += fmt::format("-{}", ranks[end]);
    i = end + 1;
  }
  return text;
}

void print(const DoctorFinding& f, std::size_t number, bool verbose) {
  const bool colours = colours_wanted();
  const char* on = !colours ? "" : f.role == "ROOT" ? "\x1b[31m" : "\x1b[33m";
  fmt::print("\n{}. {}{}{} [{} {}, {}]{}{}\n", number, on, f.finding, colours ? "\x1b[0m" : "", f.role, f.id,
             f.confidence,
             f.ranks.empty() ? "" : fmt::format(", {} {}", plural(f.ranks.size(), "rank"), ranges(f.ranks)),
             f.peer.empty() ? "" : fmt::format(", names {}", shown(f.peer)));
  if (!f.parts.empty()) fmt::print("   part:    {}\n", shown(fmt::format("{}", fmt::join(f.parts, ", "))));
  const std::size_t lines = verbose ? f.evidence.size() : std::min<std::size_t>(2, f.evidence.size());
  for (std::size_t i = 0; i < lines; ++i)
    fmt::print("   {}{}: {}\n", f.evidence[i].file,
               f.evidence[i].line > 0 ? fmt::format(":{}", f.evidence[i].line) : "",
               shown(f.evidence[i].text.substr(0, 160)));
  if (f.facts > lines) fmt::print("   and {} more\n", f.facts - lines);
  if (!f.cost.empty()) fmt::print("   cost:    {}\n", f.cost);
  fmt::print("   remedy:  {}\n   verify:  {}\n", f.remedy, f.verify);
  if (!f.refuted.empty()) fmt::print("   refuted if {}\n", f.refuted);
}

// Where nothing names a cause, the first lines of the effects and of the hints are all there is.
void print_effects(const DoctorReport& report) {
  for (const auto& f : report.folded)
    if ((f.role == "CASCADE" || f.role == "TEARDOWN" || f.role == "CONFIG") && !f.evidence.empty())
      fmt::print("\n{}: {}\n   {}{}: {}\n", f.role == "CONFIG" ? "hint" : "effect", f.finding, f.evidence[0].file,
                 f.evidence[0].line > 0 ? fmt::format(":{}", f.evidence[0].line) : "",
                 shown(f.evidence[0].text.substr(0, 160)));
}

void print(const DoctorReport& report, bool verbose) {
  fmt::print("{}.\n", report.verdict);
  std::size_t number = 0;
  for (const auto& f : report.roots) print(f, ++number, verbose);
  for (const auto& f : report.slow) print(f, ++number, verbose);
  if (!report.unknown.empty()) {
    fmt::print("\nreported and not known to any rule, the first of each rank in time order ({} in all):\n",
               counted(report.unknown_lines, "line"));
    for (const auto& one : report.unknown) {
      std::string quoted = one.fact.text.substr(0, 160);
      std::ranges::replace(quoted, '\t', ' ');
      fmt::print("   {}{}{}: {}: {}\n", one.fact.file, one.fact.line > 0 ? fmt::format(":{}", one.fact.line) : "",
                 one.fact.rank >= 0 ? fmt::format(" (rank {})", one.fact.rank) : "", one.severity, shown(quoted));
    }
  }
  if (report.roots.empty() && report.unknown.empty()) print_effects(report);
  if (!report.next.empty()) fmt::print("\n{}\n", report.next);
  if (!report.folded.empty()) {
    fmt::print("\nfolded: ");
    for (const auto& f : report.folded) fmt::print("{} x {} ({}); ", f.facts, f.finding, f.role);
    fmt::print("\n");
    if (verbose)
      for (const auto& f : report.folded) print(f, ++number, verbose);
  }
  for (const auto& note : report.notes) fmt::print("{}\n", note);
  for (const auto& one : report.damaged)
    fmt::print("cut or damaged: {}{}: {}\n", one.file, one.rank >= 0 ? fmt::format(" (rank {})", one.rank) : "",
               shown(one.text));
  for (const auto& why : report.left_out) fmt::print("not read: {}\n", why);
  if (report.files > 0)
    fmt::print("\n{} of {} read, {} of them in no form that is known\n", counted(report.lines, "line"),
               counted(report.files, "file"), report.not_understood);
}

// `refused`: what is wrong with paths that cannot be read, beside others that can.
Result<DoctorReport> examine(const Spec& spec, std::vector<std::string>& refused) {
  DoctorReport report;
  if (spec.paths.empty()) {
    for (const auto& [option, given] :
         {std::pair{"--on", !spec.on.empty()}, std::pair{"--bytes", !spec.bytes.empty()},
          std::pair{"--workload", !spec.workload.empty()}, std::pair{"--price", spec.price != 0}})
      if (given) return bad_input("{} needs logs: a machine that is not here cannot be examined", option);
    report = doctor::examine(doctor::real_probes());
  } else {
    WEFT_TRY(auto rules, doctor::shipped_rules());
    doctor::Evidence evidence(std::move(rules));
    for (const std::string& path : spec.paths) {
      if (Status added = evidence.add_path(path); !added) {
        refused.push_back(added.error().message);
        if (refused.size() == spec.paths.size()) return bad_input("{}", fmt::join(refused, "; "));
        continue;
      }
      // hwloc's XML, which the doctor's own readers leave to the library.
      const bool xml = std::filesystem::is_regular_file(path) && path.ends_with(".xml");
      WEFT_TRY(const std::optional<topology::Topology> machine,
               xml ? topology::read_recorded(path)
                   : Result<std::optional<topology::Topology>>(std::optional<topology::Topology>()));
      if (machine) evidence.add_machine(path, *machine);
    }
    evidence.finish();
    report = diagnose(evidence);
    for (const std::string& why : refused) report.left_out.push_back(why);
    if (spec.on.empty() && !spec.workload.empty()) return bad_input("--workload needs --on: the machine of the job");
    if (spec.on.empty() && spec.price != 0) return bad_input("--price needs --on: the machine of the job");
    if (spec.on.empty() && !spec.bytes.empty()) return bad_input("--bytes needs --on: the machine of the job");
    if (spec.price < 0) return bad_input("--price {}: at least 0", spec.price);
    if (!spec.on.empty()) {
      WEFT_TRY(Machine machine, load_machine(spec.on));
      WEFT_TRY(const Bytes bytes, some_bytes("--bytes", spec.bytes.empty() ? "1G" : spec.bytes));
      DoctorCosts costs(std::move(machine), bytes, spec.price);
      if (!spec.workload.empty()) WEFT_CHECK(costs.train(spec.workload));
      for (auto* list : {&report.roots, &report.slow})
        for (DoctorFinding& f : *list)
          if (const auto rule = std::ranges::find(evidence.rules(), f.id, &doctor::Rule::id);
              rule != evidence.rules().end())
            f.cost = costs.of(*rule, f);
    }
  }
  return report;
}

Result<int> run(const Spec& spec) {
  if (spec.watches) {
    if (!spec.paths.empty() || !spec.on.empty())
      return bad_input("--watch looks at this machine: {} is read without it",
                       spec.paths.empty() ? "--on" : spec.paths[0]);
    WEFT_TRY(const bool found, watch({.interval = spec.interval, .count = spec.count, .json = spec.json}));
    return found ? kBadAnswer : 0;
  }
  if (spec.interval != 2 || spec.count != 0) return bad_input("--interval and --count need --watch");
  std::vector<std::string> refused;
  WEFT_TRY(const DoctorReport report, examine(spec, refused));
  if (spec.json != "-") print(report, spec.verbose);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  if (!refused.empty()) return bad_input("{}", fmt::join(refused, "; "));
  return report.troubled ? kBadAnswer : 0;
}

Result<nlohmann::json> answer(const Spec& spec) {
  std::vector<std::string> refused;
  WEFT_TRY(const DoctorReport report, examine(spec, refused));
  return to_json(report);
}

}  // namespace

Command add_doctor(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("doctor", "What is wrong with a job, from its logs, or with this machine");
  sub->add_option("paths", spec->paths, "logs, dumps, tables: files or folders; none: this machine");
  sub->add_option("--on", spec->on, "the machine of the job, to say what a fault costs");
  sub->add_option("--workload", spec->workload,
                  "what the job trains, e.g. llama3-70b:tp=8,pp=2,global-batch=512: costs are those of a step");
  sub->add_option("--price", spec->price,
                  "of a GPU-hour: what a fault costs a day of training, and what a job costs while it stands");
  sub->add_option("--bytes", spec->bytes, "message of that all_reduce (default: 1G)");
  sub->add_flag("--verbose", spec->verbose, "all evidence, and what was folded");
  sub->add_option("--json", spec->json, "write weft.doctor/1 to this file; - is stdout instead of the text")
      ->check(writable);
  sub->add_flag("--watch", spec->watches,
                "jobs that run here: what their calls must move, beside counters of NICs, GPUs, cores and memory");
  sub->add_option("--interval", spec->interval, "seconds between two looks of --watch")->type_name("SECONDS");
  sub->add_option("--count", spec->count, "looks of --watch; 0: until it is interrupted")->type_name("N");
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
