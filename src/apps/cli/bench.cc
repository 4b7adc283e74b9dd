#include "apps/cli/bench.h"

#include "apps/cli/at_least.h"
#include "apps/cli/bench_kv.h"
#include "apps/cli/bench_nccl_variables.h"
#include "apps/cli/bench_one_sided.h"
#include "apps/cli/bench_transfer.h"
#include "apps/cli/help.h"
#include "apps/cli/refused.h"
#include "apps/cli/some_bytes.h"
#include "base/counted.h"
#include "base/env.h"
#include "base/nearest_words.h"
#include "base/text.h"
#include "plan/cost/access_costs.h"
#include "plan/cost/shipped.h"
#include "plan/tune/nccl/choice.h"
#include "plan/tune/vendor_rules.h"

namespace weft::cli {
namespace {

constexpr const char* kExamples = R"(
The table has nccl-tests' columns: time of one operation, algbw = size / time, busbw = algbw times the collective's factor
(2(n-1)/n for all_reduce), #wrong elements. Then what weft chose, what its cost model estimated, and how near the time is
to the least that this machine allows (%least: that least time as a share of the time), and what sets it. busbw counts
2(n-1)/n of an all_reduce whatever was sent, so that it may pass a port's rate where switches sum. On modelled machines `measured` stands for #wrong where
nothing is checked: 8 of 10 published measurements of such machines and sizes would lie there (weft accuracy).

Collectives: all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, gather, scatter, send_recv, barrier,
all_gather_v, reduce_scatter_v, all_to_all_v. The size counts the larger of a rank's input and output.
Expert parallelism: dispatch sends every token of a rank to the ranks of its experts, combine brings their sums back.
One-sided: put, get, put_signal, atomic; beside the same by plain loads and stores of the mapped memory (here only).
Transfers: transfer, between the agents of two processes, beside memcpy of the same blocks (docs/transfers.md).
Caches: kv, prompts of 16 tokens and more into and out of a store in another process, beside Redis.
`bench all` tries every one with every algorithm and protocol that serves it.

Examples:
  weft bench all_reduce                                   two processes here, 8 B to 64 MiB
  weft bench all_reduce --ranks 4 --check                 and look at every element
  weft bench all_reduce --on dgx-h100                     the same, simulated on eight H100
  weft bench all_gather --on dgx-h100:nodes=16,net=ib-ndr --min 1M --max 1G --factor 4
  weft bench all_reduce --on dgx-h100:nodes=4 --tuner nccl     with the choices that NCCL would make
  weft bench all_reduce --on hgx-b200:nodes=4 --tuner nccl-2.27     what that release of NCCL would choose
  weft bench all_reduce --on dgx-h100:nodes=4 --tuner nccl --algo Tree --proto LL128     as NCCL_ALGO, NCCL_PROTO
  NCCL_ALGO="^nvls" weft bench all_reduce --on dgx-h100 --tuner nccl      what a job's NCCL_* variables cost
  weft bench all_reduce --on dgx-h100:nodes=4 --fault nic:0/3=down     what a dead NIC costs
  weft bench all_reduce --on dgx-h100:nodes=8 --load uniform=30%       while others use a part of the network
  weft bench dispatch --on dgx-h100:nodes=4 --tokens 128,4096 --dtype fp8_e4m3 --topk 8 --experts 256
  weft bench combine --tokens 128 --hidden 1024 --experts 16 --ranks 4 --check          for real, four processes here
  weft bench all --check --ranks 2,3,4,5,7,8              everything there is
  weft bench all_reduce --algo ring --proto Simple        instead of weft's choice
  weft bench all_reduce --algo mine.json --ranks 4        a schedule from a file, if it is proved
  weft bench put_signal                                   against put, quiet, put, and against plain stores
  weft bench transfer --block 4K --blocks 15000           a list of 15,000 scattered pages of another process
  weft bench transfer --file /data/blocks --block 64K --blocks 4096      random reads of a file
  weft bench transfer --on dgx-h100 --ranks 8 --from nvme-gen5*8         what reloading from eight drives takes
  weft bench transfer --on dgx-h100 --ranks 8 --from nvme-gen5*8 --op write --bounce    writing them, through host memory
  weft bench transfer --on dgx-h100:nodes=2 --ranks 8 --from node        what handing over to the next node takes
  weft bench kv --block 256K --check                      blocks of 16 tokens, 16 KiB a token
  weft bench all_reduce --json results.json               the rows as weft.bench/3
)";

// "2,3,8". Errors (bad input).
Result<std::vector<Rank>> parse_ranks(const std::string& text) {
  std::vector<Rank> ranks;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    WEFT_TRY(const auto n, parse_integer("--ranks", text.substr(at, comma - at), -1, 1 << 30));
    ranks.push_back(static_cast<Rank>(n));
    at = comma + 1;
  }
  return ranks;
}

// "flow", "packet" or "packet:KEY=VALUE,...". Errors (bad input).
Status set_level(BenchSpec& spec) {
  constexpr std::string_view kPacket = "packet";
  const std::string_view level = spec.level;
  if (level.starts_with(kPacket) && (level.size() == kPacket.size() || level[kPacket.size()] == ':')) {
    if (spec.on.empty()) return bad_input("--level {} is for machines named by --on", level);
    if (level == "packet:")
      return bad_input("--level packet: has no option behind the colon: packet, or packet:KEY=VALUE,...");
    WEFT_TRY(spec.packets, sim::PacketOptions::parse(level.substr(std::min(level.size(), kPacket.size() + 1))));
  } else if (level != "flow") {
    return bad_input("unknown level '{}'; {}there are flow and packet, or packet:KEY=VALUE,...", level,
                     did_you_mean(level, {"flow", "packet"}));
  }
  constexpr std::int64_t kMostOfFlows = std::int64_t{1} << 40, kMostOfPackets = 500'000'000;  // minutes of work
  if (spec.max_events == 0) spec.max_events = spec.packets ? kMostOfPackets : kMostOfFlows;
  return {};
}

// Checks the options of a collective other than `all`'s ranks, fills in what follows from them, and loads the machine.
// Errors (bad input): names the option.
Result<Machine> settle(BenchSpec& spec) {
  const bool all = spec.collective_name == "all";
  if (!all) {
    WEFT_TRY(spec.collective, schedule::parse_collective(spec.collective_name));
    spec.collective_name = schedule::name(spec.collective);
  }
  if (spec.largest.empty()) spec.largest = all ? "64K" : "64M";
  if (spec.type_name.empty()) spec.type_name = all ? "float" : usual_type(spec.collective);
  WEFT_TRY(spec.type, parse_type(spec.type_name));
  WEFT_TRY(spec.op, parse_op(spec.op_name));
  spec.type_name = schedule::name(spec.type);
  spec.op_name = schedule::name(spec.op);
  if (!applies(spec.type, spec.op))
    return bad_input("--op {} is for integers, not for {}", spec.op_name, spec.type_name);
  WEFT_TRY(const auto sizes, sizes_of(spec));
  (void)sizes;
  if (spec.transport != "threads") WEFT_CHECK(env::check_transport("--transport", spec.transport));
  if (spec.iterations < 0) return bad_input("--iters {}: not a number of iterations", spec.iterations);
  WEFT_CHECK(check_channels(spec.channels));
  if (spec.tuner != "weft") {
    if (const auto release = tune::nccl::release_of(spec.tuner); !release && !tune::has_vendor_rules(spec.tuner))
      return bad_input("{}; also rccl, oneccl, neuron", release.error().message);
    if (spec.on.empty()) return bad_input("--tuner {} is for machines named by --on", spec.tuner);
  }
  if (spec.on.empty() && (!spec.faults.empty() || !spec.beside.empty() || !spec.loads.empty() ||
                          !spec.compute.empty() || !spec.timeline.empty()))
    return bad_input("--fault, --beside, --load, --compute and --timeline are for machines named by --on");
  if (spec.check && (!spec.beside.empty() || !spec.loads.empty() || !spec.compute.empty()))
    return bad_input("--check does not go together with --beside, --load and --compute");
  WEFT_CHECK(set_level(spec));
  WEFT_CHECK(take_nccl_variables(spec));
  if (!spec.post.empty() && !spec.calibration.empty())
    return bad_input("--post {}: stands beside --calibration, which says it already", spec.post);
  WEFT_TRY(Machine machine, load_machine(spec.on, spec.calibration));
  if (!spec.post.empty() && !schedule::routed(spec.collective)) {
    WEFT_TRY(const Duration posting, cost::posting_time(spec.post));
    if (machine.view->topology().nodes() < 2)
      return bad_input("--post {}: {} is one node, whose ranks post nothing to a network", spec.post, machine.name);
    WEFT_TRY(auto costs, cost::posted_by(*machine.view, posting));
    machine.view =
        std::make_shared<cost::MachineView>(machine.view->topology(), std::move(costs), machine.view->caches());
  }
  if (tune::nccl::with_windows(spec.tuner)) {
    WEFT_TRY(const auto calibration, cost::read_calibration(spec.calibration));
    WEFT_TRY(auto costs, cost::costs_with_windows(*machine.view, calibration));
    machine.view =
        std::make_shared<cost::MachineView>(machine.view->topology(), std::move(costs), machine.view->caches());
  }
  leave_out_nics(spec, machine);
  return machine;
}

// Errors (bad input): numbers of ranks or a root that the machine does not have.
Status settle_ranks(BenchSpec& spec, const Machine& machine, const std::vector<Rank>& counts) {
  if (counts.size() > 1) return bad_input("--ranks {}: several numbers are for `bench all`", spec.ranks_text);
  if (!counts.empty()) spec.ranks = counts.front();
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks));
  if (spec.root < 0 || spec.root >= ranks)
    return bad_input("--root {} is not one of {}", spec.root, counted(ranks, "rank"));
  return {};
}

// --bytes is one size. Errors (bad input): it stands beside --min or --max.
Status settle_size(BenchSpec& spec) {
  if (spec.only.empty()) return {};
  if (!spec.largest.empty() || spec.smallest != "8")
    return bad_input("--bytes {} is one size; --min and --max are a range of sizes", spec.only);
  WEFT_CHECK(some_bytes("--bytes", spec.only));
  spec.smallest = spec.largest = spec.only;
  return {};
}

// A message is a whole number of elements per part: says where that is not the size that was asked for.
void say_rounded(const BenchSpec& spec, Rank ranks) {
  if (spec.only.empty() || spec.collective == Collective::kBarrier || schedule::routed(spec.collective)) return;
  const auto asked = some_bytes("--bytes", spec.only);
  if (!asked) return;
  const schedule::Task task = schedule::task_of(spec.collective, ranks, ranks, *asked, spec.type);
  print_rounded(*asked, task, spec.type_name);
}

// Kernels of their own carry dispatch and combine between GPUs.
Status settle_experts(BenchSpec& spec, Machine& machine) {
  if (!machine.simulated || !cost::by_expert_kernels(*machine.view, spec.collective)) return {};
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks));
  if (!spec.post.empty() && machine.view->topology().nodes() < 2)
    return bad_input("--post {}: {} is one node, whose ranks post nothing to a network", spec.post, machine.name);
  WEFT_TRY(machine.view, machine_of(spec.experts, *machine.view, spec.collective, ranks, spec.post));
  spec.protocol = protocol::traits(protocol::Protocol::kSimple).name;
  spec.channels = 1;
  return {};
}

Result<int> run(BenchSpec& spec) {
  WEFT_CHECK(settle_size(spec));
  if (!spec.post.empty() && (spec.on.empty() || spec.collective_name == "transfer" || spec.collective_name == "kv"))
    return bad_input("--post {}: is for collectives and one-sided operations on a machine named by --on", spec.post);
  if (is_one_sided(spec.collective_name)) {
    if (spec.largest.empty()) spec.largest = "4M";
    return bench_one_sided(spec);
  }
  if (spec.collective_name == "transfer") {
    if (spec.largest.empty()) spec.largest = "64M";
    return bench_transfer(spec);
  }
  if (spec.collective_name == "kv") return bench_kv(spec);
  if (!spec.block.empty() || spec.blocks != 0 || spec.verify)
    return bad_input("--block, --blocks and --verify are for bench transfer");
  WEFT_TRY(Machine machine, settle(spec));
  WEFT_TRY(const auto counts, parse_ranks(spec.ranks_text));
  if (spec.collective_name == "all") {
    if (machine.simulated) return bad_input("bench all runs here; with --on, name a collective");
    return bench_all(spec, machine, counts.empty() ? std::vector<Rank>{2} : counts);
  }
  WEFT_CHECK(settle_ranks(spec, machine, counts));
  WEFT_CHECK(settle_experts(spec, machine));
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks));
  say_rounded(spec, ranks);
  return machine.simulated ? bench_simulated(spec, machine) : bench_here(spec, machine);
}

Result<nlohmann::json> answer(BenchSpec& spec) {
  WEFT_CHECK(settle_size(spec));
  spec.verbose = true;  // as --json: with the critical path
  if (spec.on.empty() || is_one_sided(spec.collective_name) || spec.collective_name == "all" ||
      spec.collective_name == "transfer" || spec.collective_name == "kv")
    return bad_input("bench {}: only a collective on a machine named by --on has an answer without printing",
                     spec.collective_name);
  WEFT_TRY(Machine machine, settle(spec));
  if (!machine.simulated) return bad_input("--on {}: this machine is measured by `weft bench`", spec.on);
  WEFT_TRY(const auto counts, parse_ranks(spec.ranks_text));
  WEFT_CHECK(settle_ranks(spec, machine, counts));
  WEFT_CHECK(settle_experts(spec, machine));
  WEFT_TRY(const report::BenchReport report, simulate_bench(spec, machine));
  return to_json(report);
}

void group(CLI::App& sub) {
  group_options(
      sub, "What is timed",
      {"--ranks", "--bytes", "--min", "--max", "--factor", "--dtype", "--op", "--root", "--in-place", "--iters"});
  group_options(sub, "Tokens and experts (dispatch, combine)",
                {"--tokens", "--hidden", "--topk", "--experts", "--imbalance", "--mode", "--sms", "--counts"});
  group_options(sub, "Instead of what weft chooses", {"--algo", "--proto", "--channels", "--tuner", "--reproducible"});
  group_options(sub, "Here", {"--transport", "--unregistered", "--check"});
  group_options(sub, "On another machine, simulated",
                {"--on", "--calibration", "--post", "--level", "--no-fold", "--max-events"});
  group_options(sub, "What else happens there", {"--fault", "--beside", "--load", "--compute"});
  group_options(sub, "Transfers and caches",
                {"--block", "--blocks", "--from", "--bounce", "--file", "--stack", "--verify", "--model", "--redis"});
  group_options(sub, "Output", {"--json", "--timeline", "--verbose"});
}

// Errors (bad input): an option that this kind of bench leaves without effect.
Status check_options(const CLI::App& sub, const BenchSpec& spec) {
  const bool simulated = !spec.on.empty() && spec.on != "this";
  const std::string what = fmt::format("weft bench {} {}", spec.collective_name, simulated ? "--on" : "without --on");
  const std::string named = fmt::format("weft bench {}", spec.collective_name);
  const auto collective = schedule::parse_collective(spec.collective_name);
  if (!collective || !schedule::routed(*collective))
    WEFT_CHECK(no_options(sub, named, {"tokens", "hidden", "topk", "experts", "imbalance", "mode", "sms", "counts"}));
  if (is_one_sided(spec.collective_name) && simulated)
    return only_options(sub, what,
                        {"on", "calibration", "post", "ranks", "bytes", "min", "max", "factor", "json", "algo", "proto",
                         "channels"});  // the last three have an error of their own
  if (is_one_sided(spec.collective_name))
    return no_options(sub, what,
                      {"root",    "dtype",      "op",     "in-place", "reproducible", "check",   "verbose",  "level",
                       "no-fold", "max-events", "fault",  "beside",   "load",         "compute", "timeline", "block",
                       "blocks",  "from",       "bounce", "file",     "stack",        "verify",  "model",    "redis"});
  if (spec.collective_name == "transfer" || spec.collective_name == "kv") {
    if (sub.count("--blocks") > 0 && spec.blocks == 0) return bad_input("--blocks 0: 1 to 10000000");
    WEFT_CHECK(no_options(
        sub, named,
        {"root", "dtype", "in-place", "iters", "reproducible", "no-fold", "max-events", "beside", "compute", "tuner"}));
    // A simulated hand-over heeds faults, and says of the others why it does not.
    if (!simulated || spec.collective_name == "kv")
      WEFT_CHECK(no_options(sub, what, {"level", "fault", "load", "timeline"}));
    if (spec.collective_name == "kv") return no_options(sub, "weft bench kv", {"op", "verbose", "unregistered"});
    if (simulated) return no_options(sub, what, {"verbose", "model", "redis"});
    return no_options(sub, what, {"model", "redis", "calibration"});
  }
  WEFT_CHECK(no_options(sub, what, {"from", "bounce", "file", "stack", "model", "redis"}));
  if (collective && schedule::routed(*collective))
    WEFT_CHECK(no_options(sub, named, {"bytes", "min", "max", "factor", "root", "in-place"}));
  if (collective && schedule::routed(*collective) && simulated)
    WEFT_CHECK(no_options(sub, named + " --on", {"proto", "channels", "tuner", "calibration"}));
  if (collective && schedule::routed(*collective) && !simulated)
    WEFT_CHECK(no_options(sub, named + " without --on", {"sms", "counts"}));
  if (collective && !schedule::reduces(*collective)) WEFT_CHECK(no_options(sub, named, {"op"}));
  if (collective && !schedule::rooted(*collective)) WEFT_CHECK(no_options(sub, named, {"root"}));
  if (simulated) return no_options(sub, what, {"transport", "unregistered"});
  return no_options(sub, what,
                    {"level", "no-fold", "max-events", "fault", "beside", "load", "compute", "timeline", "verbose"});
}

}  // namespace

Result<std::vector<Bytes>> sizes_of(const BenchSpec& spec) {
  WEFT_TRY(auto sizes, sizes_between(spec.smallest, spec.largest, spec.factor));
  if (schedule::routed(spec.collective)) return tokens_of(spec.experts);
  if (spec.collective == Collective::kBarrier) return std::vector<Bytes>{0};
  return sizes;
}

Result<schedule::Task> task_of(const BenchSpec& spec, Rank ranks, Rank ranks_per_node, Bytes size) {
  if (schedule::routed(spec.collective))
    return task_of(spec.experts, spec.collective, ranks, ranks_per_node, size, spec.type,
                   !spec.on.empty() && spec.on != "this");
  schedule::Task task = schedule::task_of(spec.collective, ranks, ranks_per_node, size, spec.type);
  task.root = static_cast<Rank>(spec.root);
  return task;
}

void describe_size(report::BenchRow& row, const schedule::Task& task) {
  const bool routed = schedule::routed(task.collective);
  row.count = task.elements / (routed ? task.ranks : 1);
  row.bytes = row.count * task.element_bytes;
  row.bus_factor = routed ? task.routes->sent_per_token() : schedule::bus_factor(task.collective, task.ranks);
}

Command add_bench(CLI::App& app) {
  auto spec = std::make_shared<BenchSpec>();
  CLI::App* sub = app.add_subcommand("bench", "Time a collective, here for real or simulated on another machine");
  sub->add_option("collective", spec->collective_name,
                  "all_reduce, all_gather, all_to_all, put, get, … (`weft bench --help` lists them), or all")
      ->required();
  sub->add_option("--on", spec->on, "simulate on this machine: a preset, a preset with options, or a file");
  sub->add_option("--calibration", spec->calibration, "with --on: constants from this file (weft calibrate --from)");
  sub->add_option(
      "--post", spec->post,
      "with --on: who posts messages to the network: gpu (IBGDA), proxy (a thread of the host), cpu (default: "
      "what the protocols' table says, 1 us as NCCL's proxy; dispatch and combine: 0.05 us, DeepEP's kernels)");
  sub->add_option("--ranks,-n", spec->ranks_text,
                  "how many ranks (default: 2 here, every GPU of a simulated machine); for `all` a list: 2,3,8");
  sub->add_option("--root", spec->root, "of the rooted collectives")->capture_default_str();
  sub->add_option("--bytes", spec->only, "one message size, instead of --min and --max");
  sub->add_option("--min", spec->smallest, "smallest message, e.g. 8")->capture_default_str();
  sub->add_option("--max", spec->largest, "largest message (default: 64M; all: 64K, the size that is timed)");
  sub->add_option("--factor", spec->factor, "from one size to the next")->capture_default_str();
  add_expert_options(*sub, spec->experts);
  sub->add_option("--dtype", spec->type_name, type_help());
  CLI::Option* op = sub->add_option("--op", spec->op_name, schedule::op_names(", ") + "; transfer: read, write")
                        ->capture_default_str();
  sub->add_option("--tuner", spec->tuner,
                  "with --on: weft, or nccl for what NCCL would choose; nccl-2.19 … nccl-2.30, nccl-2.29.2: what that "
                  "release would, with :symmetric for buffers in symmetric windows; rccl, oneccl, neuron: by that library's "
                  "published rules")
      ->capture_default_str();
  sub->add_option("--algo", spec->algorithm,
                  "use this algorithm, or this file's schedule (.xml, .json), instead of choosing");
  sub->add_option("--proto", spec->protocol, "use this protocol instead of choosing");
  sub->add_option("--channels", spec->channels, "use this many channels instead of choosing");
  sub->add_option("--transport", spec->transport,
                  "here: shm, tcp, ucx (between processes) or threads; default shm, or what the job has, e.g. shm+ucx");
  sub->add_option("--iters", spec->iterations,
                  "operations per run (default here: enough to be measurable; with --on: 1; "
                  "nccl-tests has 20)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
  sub->add_flag("--reproducible", spec->reproducible, "sums in rank order: the same bits on any fabric");
  sub->add_flag("--check", spec->check, "look at every element of every result");
  sub->add_flag("--in-place", spec->in_place, "output in the input's memory");
  sub->add_flag("--unregistered", spec->unregistered,
                "here: ordinary memory instead of shared memory that peers reach");
  sub->add_option("--fault", spec->faults,
                  "with --on: nic:3=down|50%, gpu:1/5=down, switch:12=down|50%, link:A-B=down|50%|+5us|flap:10ms,20%, "
                  "50%@t=2ms: from then on, "
                  "rank:5=slow:2x, jitter=exp:2us; may be given several times (docs/simulation.md)")
      ->allow_extra_args(false);
  sub->add_option("--beside", spec->beside,
                  "with --on: what other ranks do meanwhile, again and again, e.g. all_to_all:bytes=64M,ranks=8-15; "
                  "also algo=, channels=, class=; may be given several times (docs/simulation.md)")
      ->allow_extra_args(false);
  sub->add_option("--load", spec->loads,
                  "with --on: what others send over the machine's links meanwhile: A-B=40%, A-B=100Gb/s, uniform=30%; "
                  "also ,flows=, ,seed=, ,class=; may be given several times (docs/simulation.md)")
      ->allow_extra_args(false);
  sub->add_option("--compute", spec->compute,
                  "with --on: a kernel of so long on every GPU meanwhile, e.g. 5ms; also ,by=copy-engine, "
                  ",multiprocessors= (docs/simulation.md)");
  sub->add_option("--timeline", spec->timeline, "with --on, one size: what ranks and links did, for Perfetto")
      ->check(writable);
  sub->add_flag("--no-fold", spec->no_fold, "with --on: run every rank and every step, also those that are alike");
  sub->add_option(
         "--level", spec->level,
         "with --on: flow, or packet, also with options: packet:voq=off, switching=store-and-forward, pfc=off, "
         "dcqcn=off, recovery=selective, timeout=320us, alpha=1, ber=1e-9, buffer=64K, payload=1K, weights=4/1, seed=7 "
         "with commas between them (docs/simulation.md)")
      ->capture_default_str();
  sub->add_option("--max-events", spec->max_events, "with --on: stop a simulation after this number of events")
      ->check(at_least(1));
  sub->add_flag(
      "--verbose", spec->verbose,
      "with --on: say where the time goes, what was folded, and the busiest link; transfer: predict each list from "
      "this machine's costs, and say why its path was chosen");
  sub->add_option(
      "--block", spec->block,
      "transfer: cut the message into descriptors of this size, in random order; kv: bytes of a block of 16 "
      "tokens (default: 2M)");
  sub->add_option("--model", spec->model, "kv: a block's size follows from this config.json");
  sub->add_option("--redis", spec->redis,
                  "kv: the same blocks with the Redis server at HOST:PORT or at a socket's path");
  sub->add_option("--blocks", spec->blocks, "transfer: as many descriptors, instead of --min and --max");
  sub->add_flag("--verify", spec->verify, "transfer: compare every page with its writer's checksum; needs --block");
  sub->add_option(
      "--from", spec->from,
      "transfer with --on: every rank's bytes come from dram, from parts of the catalogue below the host's "
      "processors (nvme-gen5*4, cxl2-x8), from the next GPUs of the node (gpu), or from those of the next node "
      "(node)");
  sub->add_flag("--bounce", spec->bounce,
                "transfer with --from PART: through a buffer in the host's memory, without GPUDirect Storage");
  sub->add_option(
      "--file", spec->file,
      "transfer: blocks of this file past the page cache, instead of another process's memory; made, with the "
      "largest size, where it is missing");
  sub->add_option("--stack", spec->stack,
                  "transfer with --from node or gpu: weft, or another system's software: mooncake (default: weft)");
  sub->add_option("--json", spec->json, "write the results to this file; - is stdout instead of the table")
      ->check(writable);
  group(*sub);
  sub->footer(kExamples);
  const auto note = [spec, op] { spec->op_given = op->count() > 0; };
  return {sub,
          [spec, note, sub]() -> Result<int> {
            note();
            WEFT_CHECK(check_options(*sub, *spec));
            return run(*spec);
          },
          [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
