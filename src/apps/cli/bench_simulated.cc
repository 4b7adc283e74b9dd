#include <chrono>
#include <cmath>

#include "apps/cli/bench.h"
#include "apps/cli/beside.h"
#include "apps/cli/measured.h"
#include "apps/cli/on_interrupt.h"
#include "apps/cli/pattern.h"
#include "apps/cli/progress.h"
#include "base/counted.h"
#include "base/nccl_names.h"
#include "base/text.h"
#include "exec/kernels/divide.h"
#include "exec/kernels/fold.h"
#include "exec/virtual_run.h"
#include "machine/findings.h"
#include "model/predict/estimate_gap.h"
#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/sim/packet/packets.h"
#include "model/simulate/computing.h"
#include "model/simulate/faults.h"
#include "model/simulate/loads.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/limit.h"
#include "plan/tune/nccl/choice.h"
#include "plan/tune/nccl/search.h"
#include "plan/tune/nccl/symmetric.h"
#include "plan/tune/tune.h"
#include "plan/tune/vendor_rules.h"

namespace weft::cli {
namespace {

using report::BenchReport;
using report::BenchRow;

// Results are checked as far as all ranks' buffers fit into this much memory.
constexpr Bytes kCheckedMemory = Bytes{1} << 30;

// All ranks' buffers, for a simulation that also carries the bytes.
template <class T>
struct Buffers {
  Buffers(const schedule::Task& task, bool in_place) : layout(layout_of(task)) {
    const auto elements = [&](schedule::Buffer buffer, Rank r) {
      return static_cast<std::size_t>(layout.buffer_bytes(buffer, r) / task.element_bytes);
    };
    for (Rank r = 0; r < task.ranks; ++r) {
      const std::size_t ins = elements(schedule::Buffer::kIn, r), outs = elements(schedule::Buffer::kOut, r);
      std::vector<T>& memory = memories.emplace_back(in_place ? std::max(ins, outs) : ins + outs);
      const schedule::InPlace at = in_place ? schedule::in_place(layout, r) : schedule::InPlace{};
      in.emplace_back(memory.data() + at.in / task.element_bytes, ins);
      out.emplace_back(memory.data() + (in_place ? static_cast<std::size_t>(at.out / task.element_bytes) : ins), outs);
      fill_input(in.back(), layout, r);
    }
  }
  std::int64_t wrong(ReduceOp op) const {
    std::int64_t n = 0;
    for (Rank r = 0; r < layout.shape().ranks; ++r)
      n += wrong_elements(std::span<const T>(out[static_cast<std::size_t>(r)]), layout, r, op);
    return n;
  }
  schedule::Layout layout;
  std::vector<std::vector<T>> memories;
  std::vector<std::span<T>> in, out;
};

BenchRow::Packets packets_of(const sim::PacketStatistics& s, const std::string& at) {
  return {.sent = s.sent,
          .retried = s.retried,
          .lost = s.lost,
          .discarded = s.discarded,
          .reordered = s.reordered,
          .timeouts = s.timeouts,
          .pauses = s.pauses,
          .marked = s.marked,
          .longest_queue = s.longest,
          .at = at};
}

BenchRow::Computing computing_of(Duration alone, const simulate::Outcome& outcome) {
  const Duration together = std::max(outcome.time, outcome.computed);
  return {.alone = alone,
          .beside = outcome.computed,
          .together = together,
          .overlap = simulate::overlap(outcome.time, alone, together)};
}

// Carries the bytes along and counts elements that come out wrong. The time is another run's, in which only time
// passes: there parts of a message are one operation.
Result<std::int64_t> wrong_when_carried(const BenchSpec& spec, const cost::MachineView& view,
                                        const schedule::Task& task, const schedule::Plan& plan) {
  sim::FlowOptions options{.costs = view.costs(),
                           .strands = plan.channels * plan.algorithm->lanes,
                           .moves_data = true,
                           .max_events = spec.conditions.max_events};
  if (spec.conditions.packets) {
    WEFT_CHECK(simulate::check_packets(view, *spec.conditions.packets, {}));
    options.carrier = sim::packet_carrier(view.topology(), *spec.conditions.packets, nullptr, nullptr);
  }
  sim::FlowFabric fabric(view.topology(), view.routes(), task.ranks, options);
  const ReduceOp op = schedule::reduces(task.collective) ? spec.sweep.op : ReduceOp::kSum;
  const fabric::Call call{.protocol = plan.protocol,
                          .fold = exec::fold_for(spec.sweep.type, op),
                          .publishes = plan.algorithm->needs.memory()};
  return with_type(spec.sweep.type, [&](auto sample) -> Result<std::int64_t> {
    Buffers<decltype(sample)> buffers(task, spec.sweep.in_place);
    WEFT_CHECK(exec::run_virtually(fabric, task, plan, [&](Rank r) {
      fabric::Call own = call;
      own.scale = exec::scale_of(spec.sweep.type, op, task.ranks, scalar_of(r));
      own.in = reinterpret_cast<const std::byte*>(buffers.in[static_cast<std::size_t>(r)].data());
      own.out = reinterpret_cast<std::byte*>(buffers.out[static_cast<std::size_t>(r)].data());
      return own;
    }));
    if (exec::divides_at_the_end(spec.sweep.type, op, task.ranks))
      for (const auto& out : buffers.out)
        exec::divide(spec.sweep.type, reinterpret_cast<std::byte*>(out.data()),
                     static_cast<Bytes>(out.size()) * task.element_bytes, task.ranks);
    return buffers.wrong(spec.sweep.op);
  });
}

// A machine, whole or with faults, and who is on it.
struct Job {
  const cost::MachineView* view;
  Rank ranks;
  std::optional<tune::nccl::System> nccl;  // what NCCL knows of the machine, if it shall choose
  sim::Disturbances disturbances = {};
  sim::Background background = {};
  bool others = false;  // run beside it
};

Result<Job> job_on(const BenchSpec& spec, const Machine& machine, sim::Disturbances disturbances = {}) {
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.sweep.ranks));
  if (spec.sweep.root >= ranks)
    return bad_input("--root {} is not one of {} that are left", spec.sweep.root, counted(ranks, "rank"));
  Job job{machine.view.get(), ranks, std::nullopt, std::move(disturbances)};
  if (spec.forced.tuner.starts_with("nccl")) {
    WEFT_TRY(job.nccl, tune::nccl::system_of(*machine.view, ranks));
    WEFT_TRY(job.nccl->release, tune::nccl::release_of(spec.forced.tuner));
    constexpr int kBlackwell = 100, kKnowsIt = 2500;  // NCCL 2.25.1's release notes
    if (job.nccl->compute_capability >= kBlackwell && job.nccl->release < kKnowsIt)
      return bad_input("--tuner {}: NCCL has kernels for Blackwell from 2.25 on", spec.forced.tuner);
    job.nccl->windows = tune::nccl::with_windows(spec.forced.tuner);
    if (schedule::reduces(spec.sweep.collective)) {
      if (!schedule::nvswitch_combines(spec.sweep.type, spec.sweep.op)) job.nccl->nvls = {};
      if (!schedule::sharp_combines(spec.sweep.type, spec.sweep.op)) job.nccl->collnet = false;
    }
    if (job.nccl->windows && schedule::reduces(spec.sweep.collective) &&
        ((spec.sweep.op != ReduceOp::kSum && spec.sweep.op != ReduceOp::kAvg) || !is_float(spec.sweep.type) ||
         size_of(spec.sweep.type) > 4))
      return bad_input("--tuner {}: kernels for symmetric windows sum floats of at most 4 bytes, not {} of {}",
                       spec.forced.tuner, spec.sweep.op_name, spec.sweep.type_name);
    if (job.nccl->windows)
      if (const std::string why = tune::nccl::why_not_symmetric(*job.nccl, spec.sweep.collective); !why.empty())
        return bad_input("--tuner {}: {} on {}: {}", spec.forced.tuner, spec.sweep.collective_name, machine.name, why);
  }
  return job;
}

// The machine as the job finds it: with faults, while others use its links.
struct Trouble {
  Machine machine;
  sim::Disturbances disturbances = {};
  sim::Background background = {};
  bool any = false;
};
Result<Trouble> trouble_of(const BenchSpec& spec, const Machine& healthy) {
  Trouble trouble{.machine = healthy, .any = !spec.conditions.faults.empty() || !spec.conditions.loads.empty()};
  if (!trouble.any) return trouble;
  WEFT_TRY(simulate::Faulted faulted, simulate::apply_faults(healthy.view->topology(), spec.conditions.faults));
  trouble.disturbances = std::move(faulted.disturbances);
  const auto view = std::make_shared<cost::MachineView>(std::move(faulted.machine), healthy.view->costs());
  WEFT_TRY(trouble.background, simulate::background_of(*view, spec.conditions.loads));
  for (const auto& stream : trouble.background.streams) WEFT_CHECK(check_class(spec, "--load", stream.service));
  view->set_left(simulate::left_by(trouble.background, view->topology()));
  trouble.machine.view = view;
  return trouble;
}

tune::Question question_of(const BenchSpec& spec, const Job& job, const schedule::Task& task) {
  return {.task = task,
          .can = sim::flow_capabilities(job.view->topology()),
          .in_order = spec.forced.reproducible && schedule::reduces(task.collective) &&
                      schedule::order_matters(spec.sweep.type, spec.sweep.op),
          .nvswitch_combines = schedule::nvswitch_combines(spec.sweep.type, spec.sweep.op),
          .sharp_combines = schedule::sharp_combines(spec.sweep.type, spec.sweep.op),
          .algorithm = spec.forced.algorithm,
          .protocol = spec.forced.protocol,
          .channels = static_cast<int>(spec.forced.channels),
          .algorithms = env::filter_of(spec.forced.nccl.nccl_algorithms, spec.sweep.collective_name),
          .protocols = env::filter_of(spec.forced.nccl.nccl_protocols, spec.sweep.collective_name),
          .least_channels = static_cast<int>(spec.forced.nccl.least_channels),
          .most_channels = static_cast<int>(spec.forced.nccl.most_channels),
          .most_slice = spec.forced.nccl.nccl_buffer / 4};
}

// `--tuner rccl`: that library's published rules choose what is not forced. Errors (bad input): none holds here.
Status choose_by_rules(const BenchSpec& spec, const Job& job, tune::Question& question) {
  if (!tune::has_vendor_rules(spec.forced.tuner)) return {};
  const auto rule = tune::vendor_rule(*job.view, question.task);
  if (!rule || rule->tuner != spec.forced.tuner ||
      !collectives::find_algorithm(question.task.collective, rule->algorithm))
    return bad_input("--tuner {}: no published rule of it is for {} on {}", spec.forced.tuner,
                     spec.sweep.collective_name, spec.on);
  if (question.algorithm.empty()) question.algorithm = rule->algorithm;
  if (question.protocol.empty()) question.protocol = rule->protocol;
  return {};
}

// NCCL's lists may leave nothing for a collective: then another algorithm is chosen, and a line on stderr says so.
Result<BenchSpec> with_lists_that_serve(BenchSpec spec, const Job& job, Bytes bytes) {
  WEFT_TRY(const schedule::Task task, task_of(spec, job.ranks, job.view->ranks_per_node(job.ranks), bytes));
  const tune::Question asked = question_of(spec, job, task);
  if (!asked.algorithms.limits() && !asked.protocols.limits()) return spec;
  const auto chosen = job.nccl ? tune::nccl::choose(*job.view, *job.nccl, asked) : tune::choose(*job.view, asked);
  if (chosen) return spec;
  fmt::print(stderr, "weft: {}; NCCL 2.24 and newer end such a call, here it is chosen freely\n",
             chosen.error().message);
  spec.forced.nccl.nccl_algorithms.clear();
  spec.forced.nccl.nccl_protocols.clear();
  return spec;
}

// Announces runs that take minutes: of many ranks that are neither folded nor extrapolated from fewer. Returns whether
// it did.
bool announce(double steps) {
  constexpr double kMinutes = 1e8;     // steps
  constexpr double kPerMinute = 60e6;  // 0.3 to 3 million a second (bench/results/2026-11-22-simulator-speed.md)
  if (steps < kMinutes) return false;
  Progress::show("");
  fmt::print(
      stderr,
      "weft: {:.1g} steps or more are simulated one by one, some {:.0f} minutes; other algorithms may be extrapolated "
      "from fewer ranks (docs/simulation.md), --max-events sets a bound\n",
      steps, std::ceil(steps / kPerMinute));
  return true;
}

// `trace`: gets the timeline, if given.
// `with`: the same job in trouble, whose time this one is compared with: then both are found by the same method.
Result<BenchRow> simulate(const BenchSpec& spec, const Job& job, Bytes bytes, std::string* trace = nullptr,
                          const BenchRow* with = nullptr) {
  const cost::MachineView& view = *job.view;
  WEFT_TRY(const schedule::Task task, task_of(spec, job.ranks, view.ranks_per_node(job.ranks), bytes));
  tune::Question question = question_of(spec, job, task);
  WEFT_CHECK(choose_by_rules(spec, job, question));
  BenchRow row;
  describe_size(row, task);
  const cost::Limit limit = cost::limit(view, task);
  row.limit_resource = limit.resource;
  row.limit_time = limit.time;

  simulate::Options options{.fold = !spec.conditions.no_fold,
                            .fast_forward = !spec.conditions.no_fold,
                            .max_events = spec.conditions.max_events,
                            .disturbances = job.disturbances,
                            .background = job.background,
                            .packets = spec.conditions.packets,
                            .why = spec.verbose && with == nullptr,
                            .trace = trace};
  if (with != nullptr && with->method != name(simulate::Method::kExtrapolated)) options.extrapolate = false;
  if (!spec.conditions.compute.empty()) {
    WEFT_TRY(options.computing, simulate::computing_of(view, task.ranks, spec.conditions.compute));
  }
  options.before_run = [said = false](double steps) mutable { said = said || announce(steps); };
  // The protocol is that of all jobs, so it must be known before them; and what cannot be done is said before the work.
  const auto check_plan = [&](const schedule::Plan& plan, simulate::Options& o) -> Status {
    WEFT_CHECK(schedule::check_place(*plan.algorithm, spec.sweep.in_place));
    if (!spec.conditions.compute.empty() && !simulate::has_collective_engines(view))
      WEFT_CHECK(simulate::check_engine(plan, task, o.computing));
    if (job.others) {
      WEFT_TRY(o.beside, jobs_beside(spec, view, task.ranks, std::string(protocol::traits(plan.protocol).name)));
    }
    return {};
  };
  const auto begin = std::chrono::steady_clock::now();
  WEFT_TRY(const predict::Answer answer,
           predict::predict(view, {.question = question,
                                   .nccl = job.nccl ? &*job.nccl : nullptr,
                                   .options = options,
                                   .calls = static_cast<int>(std::max<std::int64_t>(1, spec.sweep.iterations)),
                                   .check = check_plan,
                                   .progress = [&](int tried, int plans) {
                                     Progress::show(fmt::format("simulating {} on {}, plan {} of {} …",
                                                                format_bytes(row.bytes), counted(task.ranks, "rank"),
                                                                tried + 1, plans));
                                   }}));
  const simulate::Outcome& outcome = answer.outcome;
  const schedule::Plan& plan = answer.choice.plan;
  row.algorithm = plan.algorithm->name;
  row.protocol = protocol::traits(plan.protocol).name;
  row.channels = plan.channels;
  row.predicted = answer.choice.estimate.total;
  row.simulating = Duration::seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (spec.sweep.check && spec.conditions.faults.empty() && row.bytes * task.ranks * 2 <= kCheckedMemory) {
    WEFT_TRY(row.errors, wrong_when_carried(spec, view, task, plan));
  }
  row.time = outcome.time;
  if (options.computing.any()) row.computing = computing_of(options.computing.alone, outcome);
  for (const sim::PathShare& share : outcome.why)
    row.why.push_back({std::string(name(share.cause)), share.where, share.time});
  row.estimate_off = predict::estimate_gap(answer.choice.estimate, outcome);
  row.path_steps = outcome.path_steps;
  row.plans_simulated = answer.tried;
  row.busiest_link = outcome.busiest_link;
  row.busiest_share = outcome.busiest_share;
  if (spec.conditions.packets) row.packets = packets_of(outcome.packets, outcome.longest_queue);
  row.method = name(outcome.method);
  row.low = outcome.low;
  row.high = outcome.high;
  row.folded = outcome.folded;
  row.fast_forwarded = outcome.fast_forwarded;
  row.extrapolated_from = outcome.extrapolated_from;
  row.uncertainty = outcome.uncertainty;
  row.approximate = outcome.approximate;
  row.steps = outcome.operations;
  row.steps_in_all_runs = outcome.steps_in_all_runs;
  row.steps_represented = outcome.represented;
  row.enlarged = outcome.enlarged;
  return row;
}

}  // namespace

Result<BenchReport> simulate_bench(const BenchSpec& asked, const Machine& machine, const BenchProgress& progress) {
  WEFT_TRY(const auto sizes, sizes_of(asked.sweep));
  if (!asked.conditions.timeline.empty() && (sizes.size() > 1 || asked.sweep.check))
    return bad_input("--timeline draws one size, unchecked: give --min and --max the same");
  WEFT_TRY(const Job healthy, job_on(asked, machine));
  WEFT_TRY(const BenchSpec spec, with_lists_that_serve(asked, healthy, sizes.front()));
  WEFT_TRY(const Trouble trouble, trouble_of(spec, machine));
  WEFT_TRY(Job job, job_on(spec, trouble.machine, trouble.disturbances));
  job.background = trouble.background;
  job.others = !spec.conditions.beside.empty();
  BenchReport report{.world = "simulated",
                     .machine = machine.name,
                     .transport = "",
                     .collective = spec.sweep.collective_name,
                     .type = spec.sweep.type_name,
                     .op = schedule::reduces(spec.sweep.collective) ? spec.sweep.op_name : "none",
                     .ranks = job.ranks,
                     .rates = spec.conditions.packets ? "packet-level, catalogue rates" : "flow-level, catalogue rates",
                     .findings = topology::findings(machine.view->topology()),
                     .faults = spec.conditions.faults,
                     .beside = spec.conditions.beside,
                     .loads = spec.conditions.loads,
                     .compute = spec.conditions.compute,
                     .tokens = schedule::routed(spec.sweep.collective) ? words_of(spec.sweep.experts) : "",
                     .rows = {}};
  std::string trace;
  for (const Bytes bytes : sizes) {
    if (progress.before) progress.before(bytes, job.ranks);
    WEFT_TRY(BenchRow row, simulate(spec, job, bytes, spec.conditions.timeline.empty() ? nullptr : &trace));
    if (trouble.any || job.others) {
      WEFT_TRY(const BenchRow whole, simulate(spec, healthy, bytes, nullptr, &row));
      row.healthy = whole.time;
    }
    const bool loses = spec.conditions.packets && spec.conditions.packets->loss > 0;  // no table is of such networks
    if (!loses) {
      WEFT_TRY(row.measured, measured_beside(row.time_without_trouble(), *healthy.view, healthy.ranks,
                                             spec.sweep.collective, row.bytes));
    }
    report.rows.push_back(row);
    if (progress.after) progress.after(report);
  }
  if (!spec.conditions.timeline.empty()) WEFT_CHECK(write_text(spec.conditions.timeline, trace));
  return report;
}

Result<int> bench_simulated(const BenchSpec& spec, const Machine& machine) {
  Progress line;
  const auto before = [](Bytes bytes, Rank ranks) {
    Progress::show(fmt::format("simulating {} on {} …", format_bytes(bytes), counted(ranks, "rank")));
  };
  BenchReport done;
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted; {} of the sizes {} done\n", done.rows.size(),
               done.rows.size() == 1 ? "is" : "are");
    if (!done.rows.empty())
      if (const auto written = finish_bench(spec, done, BenchTable(done, terminal_width(), spec.verbose)); !written)
        report_error(written.error());
  });
  const auto after = [&](const BenchReport& report) {
    const std::lock_guard lock(interrupted.mutex());
    done = report;
    Progress::show("");
    if (spec.json == "-") return;
    const BenchTable table(report, terminal_width(), spec.verbose);
    if (report.rows.size() == 1) table.header();
    table.row(report.rows.back());
    std::fflush(stdout);  // also into a pipe: a row may take minutes
  };
  WEFT_TRY(const BenchReport report, simulate_bench(spec, machine, {before, after}));
  return finish_bench(spec, report, BenchTable(report, terminal_width(), spec.verbose));
}

}  // namespace weft::cli
