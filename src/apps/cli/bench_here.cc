#include <algorithm>
#include <cstdlib>
#include <thread>

#include "api/chooser.h"
#include "api/connect.h"
#include "api/open.h"
#include "api/settings.h"
#include "api/this_machine.h"
#include "apps/cli/bench.h"
#include "apps/cli/launch.h"
#include "apps/cli/rates.h"
#include "apps/cli/trial.h"
#include "base/env.h"
#include "plan/cost/limit.h"
#include "weft/communicator.h"

namespace weft::cli {
namespace {

using report::BenchReport;
using report::BenchRow;

// Memory for one side of the collective: registered, or ordinary.
struct Buffer {
  Memory registered;
  std::unique_ptr<std::byte, decltype(&std::free)> ordinary{nullptr, std::free};
  std::byte* data = nullptr;
};

Result<Buffer> make_buffer(Communicator& comm, Bytes bytes, bool registered) {
  Buffer b;
  const auto size = static_cast<std::size_t>(std::max<Bytes>(bytes, 64));
  if (registered) {
    WEFT_TRY(b.registered, comm.allocate(size));
    b.data = static_cast<std::byte*>(b.registered.data());
  } else {
    constexpr std::size_t kPage = 4096;
    b.ordinary.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage)));
    if (!b.ordinary) return failure(Code::kNoResources, Blame::kProcess, "no memory for {} bytes", size);
    b.data = b.ordinary.get();
  }
  return b;
}

// One rank of the sweep.
class Bench {
 public:
  Bench(const BenchSpec& spec, const Machine& machine, Communicator& comm, BenchReport report, bool prints)
      : spec_(spec), machine_(machine), comm_(comm), report_(std::move(report)), prints_(prints && comm.rank() == 0) {}

  Result<int> run() {
    WEFT_TRY(const auto sizes, sizes_of(spec_.sweep));
    Bytes most = 0;
    for (const Bytes bytes : sizes) {
      WEFT_TRY(const schedule::Task task, this->task(bytes));
      most = std::max(most, Trial::memory_for(task, comm_.rank()));
    }
    WEFT_TRY(Buffer in, make_buffer(comm_, most, !spec_.sweep.unregistered));
    WEFT_TRY(Buffer out, make_buffer(comm_, spec_.sweep.in_place ? 0 : most, !spec_.sweep.unregistered));
    const BenchTable table(report_, terminal_width());
    const bool shows = prints_ && spec_.json != "-";
    if (shows) table.header();
    for (const Bytes bytes : sizes) {
      WEFT_TRY(const BenchRow row, measure(bytes, in.data, out.data));
      report_.rows.push_back(row);
      if (shows) table.row(row);
    }
    if (prints_) return finish_bench(spec_, report_, table);
    return 0;
  }

 private:
  Result<schedule::Task> task(Bytes size) const { return task_of(spec_, comm_.ranks(), comm_.ranks(), size); }

  Result<BenchRow> measure(Bytes bytes, std::byte* in, std::byte* out) {
    WEFT_TRY(const schedule::Task task, this->task(bytes));
    Trial trial(comm_,
                {.task = task,
                 .type = spec_.sweep.type,
                 .op = spec_.sweep.op,
                 .in_place = spec_.sweep.in_place,
                 .reproducible = spec_.forced.reproducible,
                 .algorithm = spec_.forced.algorithm,
                 .protocol = spec_.forced.protocol,
                 .channels = static_cast<int>(spec_.forced.channels)},
                in, out);
    BenchRow row;
    describe_size(row, task);
    WEFT_CHECK(trial.run());  // also the first touch
    const auto choice = comm_.last_choice();
    if (spec_.sweep.check) {
      WEFT_TRY(row.errors, trial.count_errors());
    }
    if (report_.rows.empty() && spec_.sweep.iterations == 0)
      WEFT_CHECK(trial.settle());  // ranks may share a core at first
    WEFT_TRY(row.time, trial.time(spec_.sweep.iterations));
    row.algorithm = choice.algorithm;
    row.protocol = choice.protocol;
    row.channels = choice.channels;
    describe(row, trial.request(), task);
    return row;
  }

  void describe(BenchRow& row, const Request& request, const schedule::Task& task) const {
    tune::Question question =
        api::question_of(task, request, api::capabilities_of(report_.transport), !spec_.sweep.unregistered);
    question.algorithm = spec_.forced.algorithm.empty() ? row.algorithm : spec_.forced.algorithm;
    question.protocol = row.protocol;
    question.channels = row.channels;
    if (const auto predicted = tune::choose(*machine_.view, question)) row.predicted = predicted->back_to_back;
    const cost::Limit limit = cost::limit(*machine_.view, task);
    row.limit_resource = limit.resource;
    row.limit_time = limit.time;
  }

  const BenchSpec& spec_;
  const Machine& machine_;
  Communicator& comm_;
  BenchReport report_;
  bool prints_;
};

int run_rank(const BenchSpec& spec, const Machine& machine, Communicator comm, BenchReport report) {
  auto result = Bench(spec, machine, comm, std::move(report), true).run();
  return result ? *result : report_error(result.error());
}

// A rank of a job, started by `weft` or another launcher.
int join_and_run(const BenchSpec& spec, const env::Settings& settings, const net::bootstrap::Job& job,
                 const std::string& transport, const calibrate::Rates& rates, BenchReport report) {
  auto joined = api::join(settings, job, transport, rates);
  if (!joined) return report_error(joined.error());
  report.ranks = job.ranks;
  report.transport = joined->transport;
  return run_rank(spec, {.name = "this", .view = joined->machine}, std::move(joined->comm), std::move(report));
}

}  // namespace

Result<int> bench_here(const BenchSpec& spec, const Machine& machine) {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_CHECK(api::check_settings(settings));
  const std::string& transport = spec.transport.empty() ? settings.transport : spec.transport;
  WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine(transport));
  BenchReport report{.world = "real",
                     .machine = "this",
                     .transport = api::within(transport),  // of ranks that start here
                     .collective = spec.sweep.collective_name,
                     .type = spec.sweep.type_name,
                     .op = schedule::reduces(spec.sweep.collective) ? spec.sweep.op_name : "none",
                     .ranks = 0,
                     .rates = "rates " + rates.source,
                     .tokens = schedule::routed(spec.sweep.collective) ? words_of(spec.sweep.experts) : "",
                     .rows = {}};
  WEFT_TRY(const auto job, net::bootstrap::job_of(settings));
  if (job) {  // started by `weft run` or alike: one rank of a job
    // Ranks must choose by the same rates; where nobody handed them down, by the usual ones.
    const calibrate::Rates common = settings.rates.empty() ? calibrate::typical() : rates;
    report.rates = "rates " + common.source;
    return join_and_run(spec, settings, *job, transport, common, report);
  }
  WEFT_TRY(report.ranks, ranks_on(machine, spec.sweep.ranks));
  Machine here = machine;
  if (api::sends_only(report.transport)) {
    WEFT_TRY(auto network, api::this_network(rates, report.transport == "ucx" ? api::Carrier::kUcx : api::Carrier::kTcp,
                                             report.ranks));
    here.view = std::make_shared<cost::MachineView>(std::move(network));
  }
  // A forced choice that cannot serve is said once, before anything starts.
  WEFT_TRY(const auto sizes, sizes_of(spec.sweep));
  WEFT_TRY(const schedule::Task probe, task_of(spec, report.ranks, report.ranks, sizes.front()));
  WEFT_TRY(
      const auto possible,
      tune::choose(*here.view, api::question_of(probe,
                                                {.collective = spec.sweep.collective,
                                                 .type = spec.sweep.type,
                                                 .op = spec.sweep.op,
                                                 .reproducible = spec.forced.reproducible,
                                                 .algorithm = spec.forced.algorithm,
                                                 .protocol = spec.forced.protocol,
                                                 .channels = static_cast<int>(spec.forced.channels)},
                                                api::capabilities_of(report.transport), !spec.sweep.unregistered)));
  (void)possible;
  if (report.transport == "threads") {
    WEFT_TRY(auto comms, api::open_threads(report.ranks, settings, rates, machine.view));
    std::vector<int> codes(comms.size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < comms.size(); ++r)
      threads.emplace_back([&, r] { codes[r] = run_rank(spec, machine, comms[r], report); });
    for (auto& t : threads) t.join();
    return *std::max_element(codes.begin(), codes.end());
  }
  return launch(report.ranks, report.transport, calibrate::to_text(rates), [&](const std::vector<Setting>& given) {
    for (const auto& [name, value] : given) setenv(name.c_str(), value.c_str(), 1);
    auto own = env::read();
    if (!own) return report_error(own.error());
    auto rank = net::bootstrap::job_of(*own);
    if (!rank) return report_error(rank.error());
    return join_and_run(spec, *own, **rank, report.transport, rates, report);
  });
}

}  // namespace weft::cli
