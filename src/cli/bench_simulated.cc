#include <unistd.h>

#include "base/text.h"
#include "cli/bench.h"
#include "cli/pattern.h"
#include "cost/limit.h"
#include "exec/kernels/fold.h"
#include "exec/virtual_run.h"
#include "sim/flow/flow_fabric.h"
#include "tune/tune.h"

namespace weft::cli {
namespace {

using report::BenchReport;
using report::BenchRow;

// Results are checked as far as all ranks' buffers fit into this much memory.
constexpr Bytes kCheckedMemory = Bytes{1} << 30;

// On a terminal, says what is being worked on.
class Progress {
 public:
  void show(const std::string& text) const {
    if (terminal_) fmt::print(stderr, "\r{:<60}\r{}", "", text);
  }
  ~Progress() { show(""); }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
};

// All ranks' buffers, for a simulation that also carries the bytes.
template <class T>
struct Buffers {
  Buffers(const schedule::Task& task) {
    for (Rank r = 0; r < task.ranks; ++r) {
      in.emplace_back(static_cast<std::size_t>(buffer_elements(task.collective, true, task.ranks, task.elements)));
      out.emplace_back(static_cast<std::size_t>(buffer_elements(task.collective, false, task.ranks, task.elements)));
      fill_input(std::span<T>(in.back()), task.collective, r, task.ranks, task.elements);
    }
  }
  std::int64_t wrong(const schedule::Task& task) const {
    std::int64_t n = 0;
    for (Rank r = 0; r < task.ranks; ++r)
      n += wrong_elements(std::span<const T>(out[static_cast<std::size_t>(r)]), task.collective, r, task.ranks,
                          task.elements, task.root);
    return n;
  }
  std::vector<std::vector<T>> in, out;
};

Result<BenchRow> simulate(const BenchSpec& spec, const Machine& machine, const schedule::Task& task) {
  const cost::MachineView& view = *machine.view;
  WEFT_TRY(const tune::Candidate choice, tune::choose(view, {.task = task,
                                                             .can = capabilities_of(machine),
                                                             .algorithm = spec.algorithm,
                                                             .protocol = spec.protocol,
                                                             .channels = static_cast<int>(spec.channels)}));
  const schedule::Plan& plan = choice.plan;
  BenchRow row{.bytes = task.elements * task.element_bytes, .count = task.elements};
  row.bus_factor = schedule::bus_factor(task.collective, task.ranks);
  row.algorithm = plan.algorithm->name;
  row.protocol = protocol::traits(plan.protocol).name;
  row.channels = plan.channels;
  row.predicted = choice.estimate.total;
  const cost::Limit limit = cost::limit(view, task);
  row.limit_resource = limit.resource;
  row.limit_time = limit.time;

  const bool checks = spec.check && row.bytes * task.ranks * 2 <= kCheckedMemory;
  sim::FlowFabric fabric(
      view.topology(), view.routes(), task.ranks,
      {.costs = view.costs(), .strands = plan.channels * plan.algorithm->lanes, .moves_data = checks});
  const fabric::Call call{.protocol = plan.protocol,
                          .fold = exec::fold_for(spec.type, ReduceOp::kSum),
                          .publishes = plan.algorithm->needs.memory()};
  if (checks) {
    WEFT_TRY(row.time, with_type(spec.type, [&](auto sample) -> Result<Duration> {
               Buffers<decltype(sample)> buffers(task);
               auto time = exec::run_virtually(fabric, task, plan, [&](Rank r) {
                 fabric::Call own = call;
                 own.in = reinterpret_cast<const std::byte*>(buffers.in[static_cast<std::size_t>(r)].data());
                 own.out = reinterpret_cast<std::byte*>(buffers.out[static_cast<std::size_t>(r)].data());
                 return own;
               });
               row.errors = buffers.wrong(task);
               return time;
             }));
  } else {
    WEFT_TRY(row.time, exec::run_virtually(fabric, task, plan, [&](Rank) { return call; }));
  }
  const auto busiest = fabric.busiest();
  row.busiest_link = busiest.link;
  row.busiest_share = busiest.utilisation;
  return row;
}

}  // namespace

Result<int> bench_simulated(const BenchSpec& spec, const Machine& machine) {
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks));
  WEFT_TRY(const auto sizes, sizes_of(spec));
  BenchReport report{.world = "simulated",
                     .machine = machine.name,
                     .transport = "",
                     .collective = spec.collective_name,
                     .type = spec.type_name,
                     .op = schedule::reduces(spec.collective) ? spec.op_name : "none",
                     .ranks = ranks,
                     .rates = "flow-level, catalogue rates",
                     .rows = {}};
  const BenchTable table(report, terminal_width());
  const bool shows = spec.json != "-";
  Progress progress;
  for (const Bytes bytes : sizes) {
    progress.show(fmt::format("simulating {} on {} ranks …", format_bytes(bytes), ranks));
    WEFT_TRY(const BenchRow row, simulate(spec, machine,
                                          {.collective = spec.collective,
                                           .ranks = ranks,
                                           .ranks_per_node = machine.view->ranks_per_node(ranks),
                                           .elements = elements_of(spec.collective, ranks, bytes, spec.type),
                                           .element_bytes = size_of(spec.type)}));
    progress.show("");
    if (shows && report.rows.empty()) table.header();
    report.rows.push_back(row);
    if (shows) table.row(row);
  }
  return finish_bench(spec, report, table);
}

}  // namespace weft::cli
