#include "apps/cli/bench.h"

#include "apps/cli/bench_kv.h"
#include "apps/cli/bench_nccl_variables.h"
#include "apps/cli/bench_one_sided.h"
#include "apps/cli/bench_options.h"
#include "apps/cli/bench_transfer.h"
#include "apps/cli/some_bytes.h"
#include "base/counted.h"
#include "base/env.h"
#include "base/nearest_words.h"
#include "base/text.h"
#include "plan/cost/access_costs.h"
#include "plan/tune/nccl/choice.h"
#include "plan/tune/vendor_rules.h"

namespace weft::cli {
namespace {

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
  const std::string_view level = spec.conditions.level;
  if (level.starts_with(kPacket) && (level.size() == kPacket.size() || level[kPacket.size()] == ':')) {
    if (spec.on.empty()) return bad_input("--level {} is for machines named by --on", level);
    if (level == "packet:")
      return bad_input("--level packet: has no option behind the colon: packet, or packet:KEY=VALUE,...");
    WEFT_TRY(spec.conditions.packets,
             sim::PacketOptions::parse(level.substr(std::min(level.size(), kPacket.size() + 1))));
  } else if (level != "flow") {
    return bad_input("unknown level '{}'; {}there are flow and packet, or packet:KEY=VALUE,...", level,
                     did_you_mean(level, {"flow", "packet"}));
  }
  constexpr std::int64_t kMostOfFlows = std::int64_t{1} << 40, kMostOfPackets = 500'000'000;  // minutes of work
  if (spec.conditions.max_events == 0)
    spec.conditions.max_events = spec.conditions.packets ? kMostOfPackets : kMostOfFlows;
  return {};
}

// Checks the options of a collective other than `all`'s ranks, fills in what follows from them, and loads the machine.
// Errors (bad input): names the option.
Result<Machine> settle(BenchSpec& spec) {
  const bool all = spec.sweep.collective_name == "all";
  if (!all) {
    WEFT_TRY(spec.sweep.collective, schedule::parse_collective(spec.sweep.collective_name));
    spec.sweep.collective_name = schedule::name(spec.sweep.collective);
  }
  if (spec.sweep.largest.empty()) spec.sweep.largest = all ? "64K" : "64M";
  if (spec.sweep.type_name.empty()) spec.sweep.type_name = all ? "float" : usual_type(spec.sweep.collective);
  WEFT_TRY(spec.sweep.type, parse_type(spec.sweep.type_name));
  WEFT_TRY(spec.sweep.op, parse_op(spec.sweep.op_name));
  spec.sweep.type_name = schedule::name(spec.sweep.type);
  spec.sweep.op_name = schedule::name(spec.sweep.op);
  if (!applies(spec.sweep.type, spec.sweep.op))
    return bad_input("--op {} is for integers, not for {}", spec.sweep.op_name, spec.sweep.type_name);
  WEFT_TRY(const auto sizes, sizes_of(spec.sweep));
  (void)sizes;
  if (spec.transport != "threads") WEFT_CHECK(env::check_transport("--transport", spec.transport));
  if (spec.sweep.iterations < 0) return bad_input("--iters {}: not a number of iterations", spec.sweep.iterations);
  WEFT_CHECK(check_channels(spec.forced.channels));
  if (spec.forced.tuner.starts_with("nccl") && spec.forced.channels != 0)
    return bad_input("--channels {}: NCCL's tuner chooses the channels; NCCL_MAX_NCHANNELS=N bounds them",
                     spec.forced.channels);
  if (spec.forced.tuner != "weft") {
    if (const auto release = tune::nccl::release_of(spec.forced.tuner);
        !release && !tune::has_vendor_rules(spec.forced.tuner))
      return bad_input("{}; also rccl, oneccl, neuron", release.error().message);
    if (spec.on.empty()) return bad_input("--tuner {} is for machines named by --on", spec.forced.tuner);
  }
  if (spec.on.empty() &&
      (!spec.conditions.faults.empty() || !spec.conditions.beside.empty() || !spec.conditions.loads.empty() ||
       !spec.conditions.compute.empty() || !spec.conditions.timeline.empty()))
    return bad_input("--fault, --beside, --load, --compute and --timeline are for machines named by --on");
  if (spec.sweep.check &&
      (!spec.conditions.beside.empty() || !spec.conditions.loads.empty() || !spec.conditions.compute.empty()))
    return bad_input("--check does not go together with --beside, --load and --compute");
  WEFT_CHECK(set_level(spec));
  WEFT_CHECK(take_nccl_variables(spec));
  if (!spec.conditions.post.empty() && !spec.calibration.empty())
    return bad_input("--post {}: stands beside --calibration, which says it already", spec.conditions.post);
  WEFT_TRY(Machine machine, load_machine(spec.on, spec.calibration));
  if (!spec.conditions.post.empty() && !schedule::routed(spec.sweep.collective)) {
    WEFT_TRY(const Duration posting, cost::posting_time(spec.conditions.post));
    if (machine.view->topology().nodes() < 2)
      return bad_input("--post {}: {} is one node, whose ranks post nothing to a network", spec.conditions.post,
                       machine.name);
    WEFT_TRY(auto costs, cost::posted_by(*machine.view, posting));
    machine.view =
        std::make_shared<cost::MachineView>(machine.view->topology(), std::move(costs), machine.view->caches());
  }
  if (tune::nccl::with_windows(spec.forced.tuner)) {
    WEFT_TRY(const auto calibration, calibration_of(spec.calibration));
    WEFT_TRY(auto costs, cost::costs_with_windows(*machine.view, calibration));
    machine.view =
        std::make_shared<cost::MachineView>(machine.view->topology(), std::move(costs), machine.view->caches());
  }
  leave_out_nics(spec, machine);
  return machine;
}

// Errors (bad input): numbers of ranks or a root that the machine does not have.
Status settle_ranks(BenchSpec& spec, const Machine& machine, const std::vector<Rank>& counts) {
  if (counts.size() > 1) return bad_input("--ranks {}: several numbers are for `bench all`", spec.sweep.ranks_text);
  if (!counts.empty()) spec.sweep.ranks = counts.front();
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.sweep.ranks));
  if (spec.sweep.root < 0 || spec.sweep.root >= ranks)
    return bad_input("--root {} is not one of {}", spec.sweep.root, counted(ranks, "rank"));
  return {};
}

// --bytes is one size. Errors (bad input): it stands beside --min or --max.
Status settle_size(BenchSpec& spec) {
  if (spec.sweep.only.empty()) return {};
  if (!spec.sweep.largest.empty() || spec.sweep.smallest != "8")
    return bad_input("--bytes {} is one size; --min and --max are a range of sizes", spec.sweep.only);
  WEFT_CHECK(some_bytes("--bytes", spec.sweep.only));
  spec.sweep.smallest = spec.sweep.largest = spec.sweep.only;
  return {};
}

// A message is a whole number of elements per part: says where that is not the size that was asked for.
void say_rounded(const BenchSpec& spec, Rank ranks) {
  if (spec.sweep.only.empty() || spec.sweep.collective == Collective::kBarrier ||
      schedule::routed(spec.sweep.collective))
    return;
  const auto asked = some_bytes("--bytes", spec.sweep.only);
  if (!asked) return;
  const schedule::Task task = schedule::task_of(spec.sweep.collective, ranks, ranks, *asked, spec.sweep.type);
  print_rounded(*asked, task, spec.sweep.type_name);
}

// Kernels of their own carry dispatch and combine between GPUs.
Status settle_experts(BenchSpec& spec, Machine& machine) {
  if (!machine.simulated || !cost::by_expert_kernels(*machine.view, spec.sweep.collective)) return {};
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.sweep.ranks));
  if (!spec.conditions.post.empty() && machine.view->topology().nodes() < 2)
    return bad_input("--post {}: {} is one node, whose ranks post nothing to a network", spec.conditions.post,
                     machine.name);
  WEFT_TRY(machine.view,
           machine_of(spec.sweep.experts, *machine.view, spec.sweep.collective, ranks, spec.conditions.post));
  spec.forced.protocol = protocol::traits(protocol::Protocol::kSimple).name;
  spec.forced.channels = 1;
  return {};
}

Status check_kv(const AskedBench& spec) {
  const TransferSpec& transfer = spec.transfer;
  const Forced& forced = spec.forced;
  if (!spec.on.empty() || !forced.algorithm.empty() || !forced.protocol.empty() || forced.channels != 0 ||
      transfer.blocks != 0 || transfer.verify || !transfer.file.empty() || !transfer.from.empty() ||
      !spec.sweep.ranks_text.empty())
    return bad_input("bench kv has --block or --model, --redis, --transport, --check and --json");
  return {};
}

Result<int> run(AskedBench& spec) {
  WEFT_CHECK(settle_size(spec));
  if (!spec.conditions.post.empty() &&
      (spec.on.empty() || spec.sweep.collective_name == "transfer" || spec.sweep.collective_name == "kv"))
    return bad_input("--post {}: is for collectives and one-sided operations on a machine named by --on",
                     spec.conditions.post);
  if (is_one_sided(spec.sweep.collective_name)) {
    if (spec.sweep.largest.empty()) spec.sweep.largest = "4M";
    return bench_one_sided(spec);
  }
  if (spec.sweep.collective_name == "transfer") {
    if (spec.sweep.largest.empty()) spec.sweep.largest = "64M";
    return bench_transfer(spec, spec.transfer);
  }
  if (spec.sweep.collective_name == "kv") {
    WEFT_CHECK(check_kv(spec));
    spec.kv.block = spec.transfer.block;
    return bench_kv(spec, spec.kv);
  }
  if (!spec.transfer.block.empty() || spec.transfer.blocks != 0 || spec.transfer.verify)
    return bad_input("--block, --blocks and --verify are for bench transfer");
  WEFT_TRY(Machine machine, settle(spec));
  WEFT_TRY(const auto counts, parse_ranks(spec.sweep.ranks_text));
  if (spec.sweep.collective_name == "all") {
    if (machine.simulated) return bad_input("bench all runs here; with --on, name a collective");
    return bench_all(spec, machine, counts.empty() ? std::vector<Rank>{2} : counts);
  }
  WEFT_CHECK(settle_ranks(spec, machine, counts));
  WEFT_CHECK(settle_experts(spec, machine));
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.sweep.ranks));
  say_rounded(spec, ranks);
  return machine.simulated ? bench_simulated(spec, machine) : bench_here(spec, machine);
}

Result<nlohmann::json> answer(BenchSpec& spec) {
  WEFT_CHECK(settle_size(spec));
  spec.verbose = true;  // as --json: with the critical path
  if (spec.on.empty() || is_one_sided(spec.sweep.collective_name) || spec.sweep.collective_name == "all" ||
      spec.sweep.collective_name == "transfer" || spec.sweep.collective_name == "kv")
    return bad_input("bench {}: only a collective on a machine named by --on has an answer without printing",
                     spec.sweep.collective_name);
  WEFT_TRY(Machine machine, settle(spec));
  if (!machine.simulated) return bad_input("--on {}: this machine is measured by `weft bench`", spec.on);
  WEFT_TRY(const auto counts, parse_ranks(spec.sweep.ranks_text));
  WEFT_CHECK(settle_ranks(spec, machine, counts));
  WEFT_CHECK(settle_experts(spec, machine));
  WEFT_TRY(const report::BenchReport report, simulate_bench(spec, machine));
  return to_json(report);
}

}  // namespace

Result<std::vector<Bytes>> sizes_of(const Sweep& sweep) {
  WEFT_TRY(auto sizes, sizes_between(sweep.smallest, sweep.largest, sweep.factor));
  if (schedule::routed(sweep.collective)) return tokens_of(sweep.experts);
  if (sweep.collective == Collective::kBarrier) return std::vector<Bytes>{0};
  return sizes;
}

Result<schedule::Task> task_of(const BenchSpec& spec, Rank ranks, Rank ranks_per_node, Bytes size) {
  if (schedule::routed(spec.sweep.collective))
    return task_of(spec.sweep.experts, spec.sweep.collective, ranks, ranks_per_node, size, spec.sweep.type,
                   !spec.on.empty() && spec.on != "this");
  schedule::Task task = schedule::task_of(spec.sweep.collective, ranks, ranks_per_node, size, spec.sweep.type);
  task.root = static_cast<Rank>(spec.sweep.root);
  return task;
}

void describe_size(report::BenchRow& row, const schedule::Task& task) {
  const bool routed = schedule::routed(task.collective);
  row.count = task.elements / (routed ? task.ranks : 1);
  row.bytes = row.count * task.element_bytes;
  row.bus_factor = routed ? task.routes->sent_per_token() : schedule::bus_factor(task.collective, task.ranks);
}

Command add_bench(CLI::App& app) {
  auto spec = std::make_shared<AskedBench>();
  CLI::App* sub = app.add_subcommand("bench", "Time a collective, here for real or simulated on another machine");
  add_bench_options(*sub, *spec);
  return {sub,
          [spec, sub]() -> Result<int> {
            spec->sweep.op_given = sub->count("--op") > 0;
            WEFT_CHECK(check_bench_options(*sub, *spec));
            return run(*spec);
          },
          [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
