#include <unistd.h>

#include <algorithm>
#include <regex>

#include "base/text.h"
#include "cli/commands.h"
#include "doctor/diagnosis.h"
#include "doctor/probes.h"
#include "predict/predict.h"
#include "sim/flow/flow_fabric.h"
#include "simulate/faults.h"
#include "workload/training/answer.h"

namespace weft::cli {
namespace {

using report::DoctorFinding;
using report::DoctorReport;

struct Spec {
  std::vector<std::string> paths;
  std::string on, json, bytes = "1G", workload;
  double price = 0;
  bool verbose = false;
};

constexpr const char* kExamples = R"(
Says what is wrong with a job from its logs, or with this machine, in at most three root findings, each with its evidence,
a remedy and a command that verifies it. Reads NCCL_DEBUG logs, PyTorch's watchdog lines and flight recorder dumps (JSON),
nccl-tests tables, dmesg, ibstat, nvidia-smi text: files, or folders of them. With --on, a fault that can be replayed is
replayed on that machine, and its cost for an all_reduce is printed. Exit 1 if a root was found.

Examples:
  weft doctor logs/                              all files in a folder
  weft doctor nccl.log dmesg.txt --on dgx-h100:nodes=4
  weft doctor logs/ --on dgx-h100:nodes=16 --workload llama3-70b:tp=8,pp=2,global-batch=512 --price 2
  weft doctor                                    this machine
)";

// The time that `weft bench` prints.
Result<Duration> all_reduce_on(const cost::MachineView& view, Bytes bytes, simulate::Options options = {}) {
  const Rank ranks = view.endpoints();
  const schedule::Task task =
      task_of(Collective::kAllReduce, ranks, view.ranks_per_node(ranks), bytes, DataType::kFloat32);
  WEFT_TRY(const predict::Answer found,
           predict::predict(view, {.question = {.task = task, .can = sim::flow_capabilities(view.topology())},
                                   .options = std::move(options)}));
  return found.outcome.time;
}

// What the fault costs an all_reduce over the whole machine.
Result<std::string> cost_of(const Machine& machine, const std::string& fault, Bytes bytes) {
  WEFT_TRY(const Duration whole, all_reduce_on(*machine.view, bytes));
  WEFT_TRY(auto faulted, simulate::apply_faults(machine.view->topology(), std::vector<std::string>{fault}));
  const cost::MachineView view(std::move(faulted.machine), machine.view->costs());
  WEFT_TRY(const Duration broken, all_reduce_on(view, bytes, {.disturbances = faulted.disturbances}));
  return fmt::format("all_reduce of {} on {}: {} instead of {} ({:+.0f} %), with {}", format_bytes(bytes), machine.name,
                     format_duration(broken), format_duration(whole), 100 * (broken / whole - 1), fault);
}

// What it costs a training step, and, where a price is given, a day.
Result<std::string> cost_of_a_step(const Machine& machine, const std::string& fault, const training::Model& model,
                                   training::Words words, double price) {
  words.on = machine.name;
  words.faults = {fault};
  WEFT_TRY(const training::Answer answer, training::answer(model, *machine.view, words));
  const double broken = answer.step.seconds, whole = *answer.report.healthy_seconds;
  std::string text = fmt::format("a step of {} on {}: {} instead of {} ({:+.1f} %), with {}", model.name, machine.name,
                                 format_duration(Duration::seconds(broken)), format_duration(Duration::seconds(whole)),
                                 100 * (broken / whole - 1), fault);
  if (price > 0)
    text += fmt::format("; {:.4g} a day at {:.4g} per GPU-hour",
                        24 * static_cast<double>(answer.report.gpus) * (1 - whole / broken) * price, price);
  return text;
}

// The rule's fault with the NIC that the evidence names: "mlx5_3" is the machine's NIC 3, on the node of the rank that
// said so. Where nothing is named, or there is no such NIC, the first one.
std::string fault_of(const doctor::Rule& rule, const DoctorFinding& finding, const Machine& machine) {
  constexpr std::string_view kFirst = "nic:0=";
  if (!rule.fault.starts_with(kFirst)) return rule.fault;
  const topology::Topology& t = machine.view->topology();
  const auto nics = std::ranges::count_if(
      t.devices(), [](const auto& d) { return d.kind == topology::DeviceKind::kNic && d.node == 0; });
  for (const auto& line : finding.evidence) {
    std::smatch named;
    static const std::regex kDevice("(?:mlx5|bnxt_re|irdma|efa|rdmap|ib)_?([0-9]{1,3})");
    if (!std::regex_search(line.text, named, kDevice)) continue;
    const int nic = std::stoi(named[1]);
    if (nic >= nics) continue;
    const Rank per_node = machine.view->ranks_per_node(machine.view->endpoints());
    const int node = finding.ranks.empty() ? 0 : static_cast<int>(finding.ranks.front() / std::max<Rank>(1, per_node));
    return fmt::format("nic:{}/{}={}", node < t.nodes() ? node : 0, nic, rule.fault.substr(kFirst.size()));
  }
  return rule.fault;
}

void print(const DoctorFinding& f, std::size_t number, bool verbose) {
  const bool colours = isatty(STDOUT_FILENO) != 0;
  const char* on = !colours ? "" : f.role == "ROOT" ? "\x1b[31m" : "\x1b[33m";
  fmt::print("\n{}. {}{}{} [{} {}, {}]{}{}\n", number, on, f.finding, colours ? "\x1b[0m" : "", f.role, f.id,
             f.confidence, f.ranks.empty() ? "" : fmt::format(", ranks {}", fmt::join(f.ranks, " ")),
             f.peer.empty() ? "" : fmt::format(", names {}", shown(f.peer)));
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

void print(const DoctorReport& report, bool verbose) {
  fmt::print("{}.\n", report.verdict);
  std::size_t number = 0;
  for (const auto& f : report.roots) print(f, ++number, verbose);
  for (const auto& f : report.slow) print(f, ++number, verbose);
  if (!report.next.empty()) fmt::print("\n{}\n", report.next);
  if (!report.folded.empty()) {
    fmt::print("\nfolded: ");
    for (const auto& f : report.folded) fmt::print("{} x {} ({}); ", f.facts, f.finding, f.role);
    fmt::print("\n");
    if (verbose)
      for (const auto& f : report.folded) print(f, ++number, verbose);
  }
  for (const auto& why : report.left_out) fmt::print("not read: {}\n", why);
  if (report.files > 0)
    fmt::print("\n{} lines of {} files read, {} not understood\n", report.lines, report.files, report.not_understood);
}

Result<DoctorReport> examine(const Spec& spec) {
  DoctorReport report;
  if (spec.paths.empty()) {
    if (!spec.on.empty()) return bad_input("--on needs logs: a machine that is not here cannot be examined");
    report = doctor::examine(doctor::real_probes());
  } else {
    WEFT_TRY(auto rules, doctor::shipped_rules());
    doctor::Evidence evidence(std::move(rules));
    for (const std::string& path : spec.paths) WEFT_CHECK(evidence.add_path(path));
    evidence.finish();
    report = diagnose(evidence);
    if (spec.on.empty() && !spec.workload.empty()) return bad_input("--workload needs --on: the machine of the job");
    if (spec.workload.empty() && spec.price != 0) return bad_input("--price needs --workload: what the job trains");
    if (spec.price < 0) return bad_input("--price {}: at least 0", spec.price);
    if (!spec.on.empty()) {
      WEFT_TRY(const Machine machine, load_machine(spec.on));
      WEFT_TRY(const Bytes bytes, parse_message("--bytes", spec.bytes));
      training::Words words;
      training::Model model;
      if (!spec.workload.empty()) {
        WEFT_TRY(words, training::parse_words(spec.workload));
        WEFT_TRY(model, training::load_model(words.model));
      }
      for (auto* list : {&report.roots, &report.slow})
        for (DoctorFinding& f : *list) {
          const auto rule = std::ranges::find(evidence.rules(), f.id, &doctor::Rule::id);
          if (rule == evidence.rules().end() || rule->fault.empty()) continue;
          const std::string fault = fault_of(*rule, f, machine);
          const auto cost = spec.workload.empty() ? cost_of(machine, fault, bytes)
                                                  : cost_of_a_step(machine, fault, model, words, spec.price);
          f.cost = cost ? *cost : fmt::format("not known: {}", cost.error().message);
        }
    }
  }
  return report;
}

Result<int> run(const Spec& spec) {
  WEFT_TRY(const DoctorReport report, examine(spec));
  if (spec.json != "-") print(report, spec.verbose);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  return report.roots.empty() ? 0 : kBadAnswer;
}

Result<nlohmann::json> answer(const Spec& spec) {
  WEFT_TRY(const DoctorReport report, examine(spec));
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
  sub->add_option("--price", spec->price, "of a GPU-hour: with --workload, what a fault costs a day");
  sub->add_option("--bytes", spec->bytes, "message of that all_reduce")->capture_default_str();
  sub->add_flag("--verbose", spec->verbose, "all evidence, and what was folded");
  sub->add_option("--json", spec->json, "write weft.doctor/1 to this file; - is stdout instead of the text")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
