#include "api/stream/path.h"
#include "apps/cli/commands.h"
#include "apps/cli/experts.h"
#include "apps/cli/explain_access.h"
#include "apps/cli/explain_answer.h"
#include "apps/cli/explain_sizes.h"
#include "apps/cli/help.h"
#include "apps/cli/measured.h"
#include "apps/cli/on_interrupt.h"
#include "apps/cli/progress.h"
#include "apps/cli/refused.h"
#include "apps/cli/some_bytes.h"
#include "base/counted.h"
#include "base/env.h"
#include "base/text.h"
#include "model/predict/predict.h"
#include "model/simulate/faults.h"
#include "plan/cost/limit.h"
#include "plan/tune/nccl/table.h"

namespace weft::cli {
namespace {

struct Spec : ExplainedQuestion {
  std::string bytes = "1M", on, calibration, type, algorithm, protocol, json, table, smallest, largest;
  std::int64_t ranks = -1, channels = 0, factor = 2;
  AccessSpec access;
  std::vector<int> gpus;
  bool processes = false;
};

constexpr const char* kExamples = R"(
Every algorithm and protocol that the collective has, with its best number of channels, the time that weft's cost model
predicts, and why it was chosen or lost. Latency is what an empty message takes; transfer is the rest.

Examples:
  weft explain all_reduce --bytes 1M --on dgx-h100
  weft explain all_reduce --bytes 64K --on dgx-h100:nodes=16,net=ib-ndr
  weft explain all_reduce --min 1K --max 1G --factor 32 --on dgx-h100     a line per size: the choice, and what comes second
  weft explain all_reduce --bytes 8 --ranks 2             for processes on this machine
  weft explain all_reduce --on dgx-h100:nodes=4 --table tuner.csv
  weft explain all_reduce --bytes 64M --on dgx-h100:nodes=2 --fault nic:0/3=down     what is best with a dead NIC
  weft explain dispatch --on dgx-h100:nodes=4 --tokens 4096 --dtype fp8_e4m3

Machines with NVIDIA GPUs: also what NCCL's own model would choose, what it predicts, and what that choice takes by
weft's. --table writes the best of what NCCL can do, by weft's cost model, for every size: a table that the example
tuner plugin of NCCL reads (NCCL_TUNER_CONFIG_FILE).

`weft explain access`: shall a rank use a peer's array through a pointer, or get it once and use the copy?
  weft explain access --bytes 64M --reuse 3 --on dgx-h100               all of it, three times
  weft explain access --bytes 64M --reuse 3 --fraction 0.01 --on dgx-h100
  weft explain access --bytes 64M --work 200us --on dgx-h100            each use computes: a stream's copy hides behind it

`weft explain devices`: how ranks on these GPUs of this machine reach each other, and why so
  weft explain devices --gpus 0,0,1                       three ranks of one process, two of them on GPU 0
  weft explain devices --gpus 0,0 --processes             two ranks, each a process
)";

// Writes the tuning table instead of explaining one size.
Result<int> write_table(const Spec& spec, const Machine& machine, const tune::Question& question) {
  if (!machine.simulated) return bad_input("--table needs --on MACHINE: NCCL runs on GPUs");
  WEFT_TRY(const Bytes largest, parse_message("--max", spec.largest.empty() ? "16G" : spec.largest));
  WEFT_TRY(const tune::nccl::System system, tune::nccl::system_of(*machine.view, question.task.ranks));
  WEFT_TRY(const auto table, tune::nccl::tuning_table(*machine.view, system, question, largest));
  WEFT_CHECK(write_text(spec.table, tune::nccl::to_csv(table, system, question.task.collective)));
  return 0;
}

Result<int> explain_devices(const Spec& spec) {
  if (spec.gpus.empty()) return bad_input("explain devices needs --gpus: the GPU of every rank");
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(auto runtime, stream::open_runtime(settings.device));
  WEFT_TRY(const stream::Path path,
           stream::choose_path(std::move(runtime), spec.gpus, !spec.processes, settings.device_path,
                               std::chrono::milliseconds(settings.timeout_ms)));
  if (spec.json != "-")
    fmt::print("# {} on GPUs {}: {}\n", counted(spec.gpus.size(), "rank"), fmt::join(spec.gpus, ","), path.why);
  if (!spec.json.empty())
    WEFT_CHECK(write_json(spec.json, {{"schema", "weft.explain_devices/1"},
                                      {"gpus", spec.gpus},
                                      {"processes", spec.processes},
                                      {"path", path.way == stream::Way::kHostMemory ? "host memory" : "kernels"},
                                      {"why", path.why}}));
  return 0;
}

// A question about a collective, with what is needed to answer it.
struct Asked {
  Machine machine;  // as the faults leave it
  tune::Question question;
  DataType type;
  sim::Disturbances disturbances = {};
  bool troubled = false;
};
// Is the question about a range of sizes?
bool sweeps(const Spec& spec) { return spec.table.empty() && (!spec.smallest.empty() || !spec.largest.empty()); }

// The machine with the faults; what disturbs a run on it beyond that. Errors (bad input): a fault that is none.
Result<sim::Disturbances> break_machine(Machine& machine, const std::vector<std::string>& faults) {
  if (faults.empty()) return sim::Disturbances{};
  if (!machine.simulated) return bad_input("--fault {} is for machines named by --on", faults.front());
  WEFT_TRY(simulate::Faulted faulted, simulate::apply_faults(machine.view->topology(), faults));
  machine.view = std::make_shared<cost::MachineView>(std::move(faulted.machine), machine.view->costs());
  return std::move(faulted.disturbances);
}

// Errors (bad input): names the option.
Result<Asked> ask(Spec& spec) {
  WEFT_TRY(const Collective collective, schedule::parse_collective(spec.collective));
  spec.collective = schedule::name(collective);
  if (spec.type.empty()) spec.type = usual_type(collective);
  WEFT_TRY(const DataType type, parse_type(spec.type));
  spec.type = schedule::name(type);
  const bool moves = collective != Collective::kBarrier;
  WEFT_TRY(const Bytes bytes, moves ? some_bytes("--bytes", spec.bytes) : parse_message("--bytes", spec.bytes));
  WEFT_CHECK(check_channels(spec.channels));
  WEFT_TRY(Machine machine, load_machine(spec.on, spec.calibration));
  WEFT_TRY(sim::Disturbances disturbances, break_machine(machine, spec.faults));
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks));
  const Rank per_node = machine.simulated ? machine.view->ranks_per_node(ranks) : ranks;
  schedule::Task task = task_of(collective, ranks, per_node, bytes, type);
  if (!sweeps(spec) && collective != Collective::kBarrier && !schedule::routed(collective))
    print_rounded(bytes, task, spec.type);
  if (schedule::routed(collective)) {
    WEFT_TRY(const auto tokens, tokens_of(spec.experts));
    if (tokens.size() != 1)
      return bad_input("explain {} is of one number of tokens: --tokens 128", schedule::name(collective));
    WEFT_TRY(task, task_of(spec.experts, collective, ranks, per_node, tokens.front(), type, machine.simulated));
  }
  if (machine.simulated && cost::by_expert_kernels(*machine.view, collective)) {
    WEFT_TRY(machine.view, machine_of(spec.experts, *machine.view, collective, ranks, ""));
    spec.protocol = protocol::traits(protocol::Protocol::kSimple).name;
    spec.channels = 1;
  }
  tune::Question question{.task = std::move(task),
                          .can = capabilities_of(machine),
                          .nvswitch_combines = schedule::nvswitch_combines(type, ReduceOp::kSum),
                          .sharp_combines = schedule::sharp_combines(type, ReduceOp::kSum),
                          .algorithm = spec.algorithm,
                          .protocol = spec.protocol,
                          .channels = static_cast<int>(spec.channels)};
  return Asked{std::move(machine), std::move(question), type, std::move(disturbances), !spec.faults.empty()};
}

// The simulator decides between plans of nearly equal estimates; its choice comes first.
void mark_chosen(std::vector<tune::Candidate>& all, const predict::Answer& answer) {
  const tune::Candidate& choice = answer.choice;
  const auto found = std::ranges::find_if(all, [&](const tune::Candidate& c) {
    return c.plan.algorithm == choice.plan.algorithm && c.plan.protocol == choice.plan.protocol;
  });
  if (found == all.end()) return;
  if (found != all.begin()) {
    all.front().chosen = false;
    all.front().reason =
        fmt::format("the least estimate; {}",
                    choice.reason.starts_with("fastest of") ? "simulated, it takes longer" : "not simulated");
  }
  *found = choice;
  std::rotate(all.begin(), found, found + 1);
}

// `publish`: called with the estimates, before anything is simulated; may be empty.
Result<Explained> explain(const Asked& asked, const std::function<void(const Explained&)>& publish) {
  WEFT_TRY(auto all, tune::candidates(*asked.machine.view, asked.question));
  std::optional<NcclView> nccl;
  if (asked.machine.simulated && all.front().possible) nccl = ask_nccl(*asked.machine.view, asked.question);
  Explained e{std::move(all), std::nullopt, std::move(nccl), cost::limit(*asked.machine.view, asked.question.task),
              std::nullopt};
  if (asked.machine.simulated && e.all.front().possible) {
    predict::Query query{.question = asked.question, .options = {.disturbances = asked.disturbances}};
    if (publish) {
      publish(e);
      query.progress = [](int tried, int plans) {
        Progress::show(fmt::format("simulating plan {} of {} …", tried + 1, plans));
      };
    }
    WEFT_TRY(e.answer, predict::predict(*asked.machine.view, query));
    mark_chosen(e.all, *e.answer);
    const schedule::Task& task = asked.question.task;
    if (!asked.troubled) {
      WEFT_TRY(e.measured, measured_beside(e.answer->outcome.time, *asked.machine.view, task.ranks, task.collective,
                                           task.elements * task.element_bytes));
    }
  }
  return e;
}

Status emit(const Spec& spec, const Asked& asked, const Explained& e) {
  const schedule::Task& task = asked.question.task;
  if (spec.json != "-") print(spec, asked.machine, task, e);
  if (spec.json != "-" && e.nccl) print_nccl(*e.nccl, e.all.front());
  if (spec.json.empty()) return {};
  return write_json(spec.json, to_json(spec, asked.machine, task, e));
}

// Explains every size from --min to --max; `each` is called after each. The answers as weft.explain_sizes/1.
Result<nlohmann::json> explain_sizes(Spec& spec, Asked& asked, const std::function<void(const ExplainedSize&)>& each) {
  WEFT_TRY(auto sizes, sizes_between(spec.smallest.empty() ? "8" : spec.smallest,
                                     spec.largest.empty() ? "64M" : spec.largest, spec.factor));
  if (asked.question.task.collective == Collective::kBarrier) sizes = {0};
  nlohmann::json answers = nlohmann::json::array();
  for (const Bytes bytes : sizes) {
    schedule::Task& task = asked.question.task;
    const Rank per_node = asked.machine.simulated ? asked.machine.view->ranks_per_node(task.ranks) : task.ranks;
    task = task_of(task.collective, task.ranks, per_node, bytes, asked.type);
    Progress::show(fmt::format("explaining {} …", format_bytes(bytes)));
    WEFT_TRY(const Explained e, explain(asked, {}));
    Progress::show("");
    const Duration time = e.answer ? e.answer->outcome.time : e.all.front().estimate.total;
    each({task.elements * task.element_bytes, e.all, time, e.limit});
    answers.push_back(to_json(spec, asked.machine, task, e));
  }
  return nlohmann::json{{"schema", "weft.explain_sizes/1"}, {"sizes", std::move(answers)}};
}

Result<int> run_sizes(Spec& spec) {
  WEFT_TRY(Asked asked, ask(spec));
  const bool prints = spec.json != "-";
  Progress line;
  bool possible = true, first = true;
  WEFT_TRY(const auto json, explain_sizes(spec, asked, [&](const ExplainedSize& size) {
             if (prints && first)
               print_sizes_header(spec.collective, spec.type, asked.question.task.ranks, asked.machine.name,
                                  asked.machine.simulated);
             if (prints) print_size(size);
             possible = possible && size.all.front().possible, first = false;
           }));
  if (prints)
    fmt::print(
        "# %least: the least possible time, as a share of the time\n"
        "# weft explain {} --bytes SIZE says why each other one lost at that size\n",
        spec.collective);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, json));
  return possible ? 0 : kBadAnswer;
}

Result<int> run(Spec& spec) {
  if (spec.collective == "devices") return explain_devices(spec);
  if (spec.collective == "access") {
    WEFT_TRY(const Bytes bytes, some_bytes("--bytes", spec.bytes));
    WEFT_TRY(const Machine machine, load_machine(spec.on, spec.calibration));
    return explain_access(spec.access, machine, bytes, spec.json);
  }
  if (spec.access.used())
    return bad_input("--reuse, --fraction, --peer, --l2, --memory, --work: of `weft explain access`");
  if (sweeps(spec)) return run_sizes(spec);
  WEFT_TRY(const Asked asked, ask(spec));
  if (!spec.table.empty()) return write_table(spec, asked.machine, asked.question);
  std::optional<Explained> estimated;
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted; {}\n",
               estimated ? "the least estimate is marked, no choice was simulated" : "nothing is done");
    if (!estimated) return;
    if (const auto written = emit(spec, asked, *estimated); !written) report_error(written.error());
  });
  Progress line;
  Progress::show("estimating …");
  WEFT_TRY(const Explained e, explain(asked, [&](const Explained& so_far) {
             const std::lock_guard lock(interrupted.mutex());
             estimated = so_far;
           }));
  const std::lock_guard lock(interrupted.mutex());
  Progress::show("");
  WEFT_CHECK(emit(spec, asked, e));
  return e.all.front().possible ? 0 : kBadAnswer;
}

Result<nlohmann::json> answer(Spec& spec) {
  if (spec.collective == "devices" || spec.collective == "access" || !spec.table.empty())
    return bad_input("explain {}: only a collective has an answer without printing", spec.collective);
  WEFT_TRY(Asked asked, ask(spec));
  if (sweeps(spec)) return explain_sizes(spec, asked, [](const ExplainedSize&) {});
  WEFT_TRY(const Explained e, explain(asked, {}));
  return to_json(spec, asked.machine, asked.question.task, e);
}

// Errors (bad input): an option that this question leaves without effect.
Status check_options(const CLI::App& sub, const Spec& spec) {
  const std::string what = fmt::format("weft explain {}", spec.collective);
  if (spec.collective == "devices") return only_options(sub, what, {"gpus", "processes", "json"});
  if (spec.collective == "access")
    return only_options(sub, what,
                        {"bytes", "on", "calibration", "reuse", "fraction", "peer", "l2", "memory", "work", "json"});
  WEFT_CHECK(no_options(sub, what, {"reuse", "fraction", "peer", "l2", "memory", "work", "gpus", "processes"}));
  const auto collective = schedule::parse_collective(spec.collective);
  const bool routed = collective && schedule::routed(*collective);
  if (routed) WEFT_CHECK(no_options(sub, what, {"bytes", "min", "max", "factor", "table"}));
  if (routed && !spec.on.empty() && spec.on != "this")
    WEFT_CHECK(no_options(sub, what + " --on", {"proto", "channels", "calibration"}));
  if (!routed)
    WEFT_CHECK(no_options(sub, what, {"tokens", "hidden", "topk", "experts", "imbalance", "mode", "sms", "counts"}));
  if (sweeps(spec) && sub.count("--bytes") > 0)
    return bad_input("--bytes {} is one size; --min and --max are a range of sizes", spec.bytes);
  if (spec.table.empty())
    return sweeps(spec) ? Status{} : no_options(sub, what + " without --min or --max", {"factor"});
  return no_options(sub, what + " --table", {"bytes", "min", "factor", "json"});
}

}  // namespace

Command add_explain(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub =
      app.add_subcommand("explain", "Say which algorithm and protocol is chosen, and why each other one lost");
  sub->add_option("collective", spec->collective,
                  "all_reduce, broadcast, … (weft algorithms lists them), access, or devices")
      ->required();
  sub->add_option("--bytes", spec->bytes, "message size")->capture_default_str();
  sub->add_option("--min", spec->smallest, "smallest of a range of sizes (default: 8), each explained by one line");
  sub->add_option("--max", spec->largest, "largest of that range (default: 64M), or of the table (default: 16G)");
  sub->add_option("--factor", spec->factor, "from one size of the range to the next")->capture_default_str();
  sub->add_option("--on", spec->on, "the machine: a preset, a preset with options, or a file (default: this one)");
  sub->add_option("--ranks,-n", spec->ranks, "how many ranks (default: 2 here, every GPU of another machine)");
  sub->add_option("--calibration", spec->calibration, "with --on: constants from this file (weft calibrate --from)");
  sub->add_option("--fault", spec->faults, "with --on: as of weft bench, e.g. nic:0/3=down; may be given several times")
      ->allow_extra_args(false);
  sub->add_option("--dtype", spec->type, type_help());
  sub->add_option("--algo", spec->algorithm, "only this algorithm, or this file's schedule");
  sub->add_option("--proto", spec->protocol, "only this protocol");
  sub->add_option("--channels", spec->channels, "with this many channels");
  sub->add_option("--table", spec->table, "write a tuning table for NCCL to this file (- is stdout), instead")
      ->check(writable);
  add_expert_options(*sub, spec->experts);
  sub->add_option("--reuse", spec->access.reuse, "access: how often the array is used")->capture_default_str();
  sub->add_option("--fraction", spec->access.fraction, "access: the part of its cache lines that every use reads")
      ->capture_default_str();
  sub->add_option("--peer", spec->access.peer, "access: the array's rank; rank 0 uses it")->capture_default_str();
  sub->add_option("--l2", spec->access.cache,
                  "access: as if rank 0's cache kept up to this much of its peer's memory; GPUs' keep none")
      ->capture_default_str();
  sub->add_option("--memory", spec->access.memory,
                  "access: the array is the host's unified memory, in dram or a part below it: cxl2-x8*2, nvme-gen5*4");
  sub->add_option("--work", spec->access.work,
                  "access: computation of each use, e.g. 200us, beside which a stream can copy");
  sub->add_option("--gpus", spec->gpus, "devices: the GPU of every rank, e.g. 0,0,1,1")->delimiter(',');
  sub->add_flag("--processes", spec->processes, "devices: every rank is a process of its own");
  sub->add_option(
         "--json", spec->json,
         "write weft.explain/1 (of a range weft.explain_sizes/1) to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub,
          [spec, sub]() -> Result<int> {
            WEFT_CHECK(check_options(*sub, *spec));
            return run(*spec);
          },
          [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
