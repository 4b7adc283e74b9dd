#include "apps/cli/bench_options.h"

#include "apps/cli/at_least.h"
#include "apps/cli/bench_one_sided.h"
#include "apps/cli/help.h"
#include "apps/cli/refused.h"
#include "plan/schedule/element.h"

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

// Options appear in help and completion in the order in which they are added.

void add_sweep(CLI::App& sub, AskedBench& spec) {
  sub.add_option("collective", spec.sweep.collective_name,
                 "all_reduce, all_gather, all_to_all, put, get, … (`weft bench --help` lists them), or all")
      ->required();
  sub.add_option("--on", spec.on, "simulate on this machine: a preset, a preset with options, or a file");
  sub.add_option("--calibration", spec.calibration, "with --on: constants from this file (weft calibrate --from)");
  sub.add_option(
      "--post", spec.conditions.post,
      "with --on: who posts messages to the network: gpu (IBGDA), proxy (a thread of the host), cpu (default: "
      "what the protocols' table says, 1 us as NCCL's proxy; dispatch and combine: 0.05 us, DeepEP's kernels)");
  sub.add_option("--ranks,-n", spec.sweep.ranks_text,
                 "how many ranks (default: 2 here, every GPU of a simulated machine); for `all` a list: 2,3,8");
  sub.add_option("--root", spec.sweep.root, "of the rooted collectives")->capture_default_str();
  sub.add_option("--bytes", spec.sweep.only, "one message size, instead of --min and --max");
  sub.add_option("--min", spec.sweep.smallest, "smallest message, e.g. 8")->capture_default_str();
  sub.add_option("--max", spec.sweep.largest, "largest message (default: 64M; all: 64K, the size that is timed)");
  sub.add_option("--factor", spec.sweep.factor, "from one size to the next")->capture_default_str();
  add_expert_options(sub, spec.sweep.experts);
  sub.add_option("--dtype", spec.sweep.type_name, type_help());
  sub.add_option("--op", spec.sweep.op_name, schedule::op_names(", ") + "; transfer: read, write")
      ->capture_default_str();
}

void add_choices(CLI::App& sub, AskedBench& spec) {
  sub.add_option(
         "--tuner", spec.forced.tuner,
         "with --on: weft, or nccl for what NCCL would choose; nccl-2.19 … nccl-2.30, nccl-2.29.2: what that "
         "release would, with :symmetric for buffers in symmetric windows; rccl, oneccl, neuron: by that library's "
         "published rules")
      ->capture_default_str();
  sub.add_option("--algo", spec.forced.algorithm,
                 "use this algorithm, or this file's schedule (.xml, .json), instead of choosing");
  sub.add_option("--proto", spec.forced.protocol, "use this protocol instead of choosing");
  sub.add_option("--channels", spec.forced.channels, "use this many channels instead of choosing");
  sub.add_option("--transport", spec.transport,
                 "here: shm, tcp, ucx (between processes) or threads; default shm, or what the job has, e.g. shm+ucx");
  sub.add_option("--iters", spec.sweep.iterations,
                 "operations per run (default here: enough to be measurable; with --on: 1; "
                 "nccl-tests has 20)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
  sub.add_flag("--reproducible", spec.forced.reproducible, "sums in rank order: the same bits on any fabric");
  sub.add_flag("--check", spec.sweep.check, "look at every element of every result");
  sub.add_flag("--in-place", spec.sweep.in_place, "output in the input's memory");
  sub.add_flag("--unregistered", spec.sweep.unregistered,
               "here: ordinary memory instead of shared memory that peers reach");
}

void add_conditions(CLI::App& sub, Conditions& conditions) {
  sub.add_option("--fault", conditions.faults,
                 "with --on: nic:3=down|50%, gpu:1/5=down, switch:12=down|50%, link:A-B=down|50%|+5us|flap:10ms,20%, "
                 "50%@t=2ms: from then on, "
                 "rank:5=slow:2x, jitter=exp:2us; may be given several times (docs/simulation.md)")
      ->allow_extra_args(false);
  sub.add_option("--beside", conditions.beside,
                 "with --on: what other ranks do meanwhile, again and again, e.g. all_to_all:bytes=64M,ranks=8-15; "
                 "also algo=, channels=, class=; may be given several times (docs/simulation.md)")
      ->allow_extra_args(false);
  sub.add_option("--load", conditions.loads,
                 "with --on: what others send over the machine's links meanwhile: A-B=40%, A-B=100Gb/s, uniform=30%; "
                 "also ,flows=, ,seed=, ,class=; may be given several times (docs/simulation.md)")
      ->allow_extra_args(false);
  sub.add_option("--compute", conditions.compute,
                 "with --on: a kernel of so long on every GPU meanwhile, e.g. 5ms; also ,by=copy-engine, "
                 ",multiprocessors= (docs/simulation.md)");
  sub.add_option("--timeline", conditions.timeline, "with --on, one size: what ranks and links did, for Perfetto")
      ->check(writable);
  sub.add_flag("--no-fold", conditions.no_fold, "with --on: run every rank and every step, also those that are alike");
  sub.add_option(
         "--level", conditions.level,
         "with --on: flow, or packet, also with options: packet:voq=off, switching=store-and-forward, pfc=off, "
         "dcqcn=off, recovery=selective, timeout=320us, alpha=1, ber=1e-9, buffer=64K, payload=1K, weights=4/1, seed=7 "
         "with commas between them (docs/simulation.md)")
      ->capture_default_str();
  sub.add_option("--max-events", conditions.max_events, "with --on: stop a simulation after this number of events")
      ->check(at_least(1));
}

void add_transfers_and_output(CLI::App& sub, AskedBench& spec) {
  sub.add_flag(
      "--verbose", spec.verbose,
      "with --on: say where the time goes, what was folded, and the busiest link; transfer: predict each list from "
      "this machine's costs, and say why its path was chosen");
  sub.add_option("--block", spec.transfer.block,
                 "transfer: cut the message into descriptors of this size, in random order; kv: bytes of a block of 16 "
                 "tokens (default: 2M)");
  sub.add_option("--model", spec.kv.model, "kv: a block's size follows from this config.json");
  sub.add_option("--redis", spec.kv.redis,
                 "kv: the same blocks with the Redis server at HOST:PORT or at a socket's path");
  sub.add_option("--blocks", spec.transfer.blocks, "transfer: as many descriptors, instead of --min and --max");
  sub.add_flag("--verify", spec.transfer.verify,
               "transfer: compare every page with its writer's checksum; needs --block");
  sub.add_option(
      "--from", spec.transfer.from,
      "transfer with --on: every rank's bytes come from dram, from parts of the catalogue below the host's "
      "processors (nvme-gen5*4, cxl2-x8), from the next GPUs of the node (gpu), or from those of the next node "
      "(node)");
  sub.add_flag("--bounce", spec.transfer.bounce,
               "transfer with --from PART: through a buffer in the host's memory, without GPUDirect Storage");
  sub.add_option(
      "--file", spec.transfer.file,
      "transfer: blocks of this file past the page cache, instead of another process's memory; made, with the "
      "largest size, where it is missing");
  sub.add_option("--stack", spec.transfer.stack,
                 "transfer with --from node or gpu: weft, or another system's software: mooncake (default: weft)");
  sub.add_option("--json", spec.json, "write the results to this file; - is stdout instead of the table")
      ->check(writable);
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

}  // namespace

Status check_bench_options(const CLI::App& sub, const AskedBench& spec) {
  const bool simulated = !spec.on.empty() && spec.on != "this";
  const std::string what =
      fmt::format("weft bench {} {}", spec.sweep.collective_name, simulated ? "--on" : "without --on");
  const std::string named = fmt::format("weft bench {}", spec.sweep.collective_name);
  const auto collective = schedule::parse_collective(spec.sweep.collective_name);
  if (!collective || !schedule::routed(*collective))
    WEFT_CHECK(no_options(sub, named, {"tokens", "hidden", "topk", "experts", "imbalance", "mode", "sms", "counts"}));
  if (is_one_sided(spec.sweep.collective_name) && simulated)
    return only_options(sub, what,
                        {"on", "calibration", "post", "ranks", "bytes", "min", "max", "factor", "json", "algo", "proto",
                         "channels"});  // the last three have an error of their own
  if (is_one_sided(spec.sweep.collective_name))
    return no_options(sub, what,
                      {"root",    "dtype",      "op",     "in-place", "reproducible", "check",   "verbose",  "level",
                       "no-fold", "max-events", "fault",  "beside",   "load",         "compute", "timeline", "block",
                       "blocks",  "from",       "bounce", "file",     "stack",        "verify",  "model",    "redis"});
  if (spec.sweep.collective_name == "transfer" || spec.sweep.collective_name == "kv") {
    if (sub.count("--blocks") > 0 && spec.transfer.blocks == 0) return bad_input("--blocks 0: 1 to 10000000");
    WEFT_CHECK(no_options(
        sub, named,
        {"root", "dtype", "in-place", "iters", "reproducible", "no-fold", "max-events", "beside", "compute", "tuner"}));
    // A simulated hand-over heeds faults, and says of the others why it does not.
    if (!simulated || spec.sweep.collective_name == "kv")
      WEFT_CHECK(no_options(sub, what, {"level", "fault", "load", "timeline"}));
    if (spec.sweep.collective_name == "kv") return no_options(sub, "weft bench kv", {"op", "verbose", "unregistered"});
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

void add_bench_options(CLI::App& sub, AskedBench& spec) {
  add_sweep(sub, spec);
  add_choices(sub, spec);
  add_conditions(sub, spec.conditions);
  add_transfers_and_output(sub, spec);
  group(sub);
  sub.footer(kExamples);
}

}  // namespace weft::cli
