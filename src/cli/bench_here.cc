#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "api/connect.h"
#include "api/this_machine.h"
#include "base/env.h"
#include "cli/bench.h"
#include "cli/launch.h"
#include "cli/pattern.h"
#include "cli/rates.h"
#include "cost/limit.h"
#include "weft/communicator.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;
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
    WEFT_TRY(const auto sizes, sizes_of(spec_));
    const Bytes most = elements_of(spec_.collective, comm_.ranks(), sizes.back(), spec_.type) * size_of(spec_.type);
    WEFT_TRY(Buffer in, make_buffer(comm_, most, !spec_.unregistered));
    WEFT_TRY(Buffer out, make_buffer(comm_, spec_.in_place ? 0 : most, !spec_.unregistered));
    const BenchTable table(report_, terminal_width());
    const bool shows = prints_ && spec_.json != "-";
    if (shows) table.header();
    for (const Bytes bytes : sizes) {
      WEFT_TRY(const BenchRow row, measure(bytes, in.data, spec_.in_place ? nullptr : out.data));
      report_.rows.push_back(row);
      if (shows) table.row(row);
    }
    if (prints_) return finish_bench(spec_, report_, table);
    return 0;
  }

 private:
  Request request_for(Bytes elements, std::byte* in, std::byte* out) const {
    const Bytes per_rank = std::min(buffer_elements(spec_.collective, true, comm_.ranks(), elements),
                                    buffer_elements(spec_.collective, false, comm_.ranks(), elements));
    // In place, the smaller side is this rank's part of the larger.
    std::byte* target = out;
    const std::byte* source = in;
    if (out == nullptr) {
      target = in + first_element(spec_.collective, false, comm_.rank(), comm_.ranks(), elements) * size_of(spec_.type);
      source = in + first_element(spec_.collective, true, comm_.rank(), comm_.ranks(), elements) * size_of(spec_.type);
    }
    return {.collective = spec_.collective,
            .in = source,
            .out = target,
            .count = static_cast<std::size_t>(per_rank),
            .type = spec_.type,
            .algorithm = spec_.algorithm,
            .protocol = spec_.protocol,
            .channels = static_cast<int>(spec_.channels)};
  }

  Result<BenchRow> measure(Bytes bytes, std::byte* in, std::byte* out) {
    const Bytes elements = elements_of(spec_.collective, comm_.ranks(), bytes, spec_.type);
    const Request request = request_for(elements, in, out);
    BenchRow row{.bytes = elements * size_of(spec_.type), .count = elements};
    row.bus_factor = schedule::bus_factor(spec_.collective, comm_.ranks());
    fill(request, elements);
    WEFT_CHECK(comm_.run(request));  // also the first touch
    const auto choice = comm_.last_choice();
    if (spec_.check) {
      WEFT_TRY(row.errors, count_errors(request, elements));
    }
    WEFT_TRY(row.time, time_of(request));
    row.algorithm = choice.algorithm;
    row.protocol = choice.protocol;
    row.channels = choice.channels;
    describe(row, request, elements);
    return row;
  }

  void fill(const Request& request, Bytes elements) {
    with_type(spec_.type, [&](auto sample) {
      using T = decltype(sample);
      const auto n = static_cast<std::size_t>(buffer_elements(spec_.collective, true, comm_.ranks(), elements));
      fill_input(std::span<T>(const_cast<T*>(static_cast<const T*>(request.in)), n), spec_.collective, comm_.rank(),
                 comm_.ranks(), elements);
    });
  }

  // All ranks' wrong elements together.
  Result<std::int64_t> count_errors(const Request& request, Bytes elements) {
    const std::int64_t mine = with_type(spec_.type, [&](auto sample) {
      using T = decltype(sample);
      const auto n = static_cast<std::size_t>(buffer_elements(spec_.collective, false, comm_.ranks(), elements));
      return wrong_elements(std::span<const T>(static_cast<const T*>(request.out), n), spec_.collective, comm_.rank(),
                            comm_.ranks(), elements, 0);
    });
    std::int64_t all = 0;
    WEFT_CHECK(comm_.all_reduce(std::span<const std::int64_t>(&mine, 1), std::span<std::int64_t>(&all, 1)));
    return all;
  }

  // Median over runs of (slowest rank's time for N back-to-back operations) / N.
  Result<Duration> time_of(const Request& request) {
    constexpr int kRuns = 7;
    constexpr double kRunSeconds = 0.02;
    std::int64_t n = spec_.iterations;
    if (n == 0) {
      n = 1;
      WEFT_TRY(double once, run_of(request, 1));
      WEFT_TRY(once,
               run_of(request, std::clamp<std::int64_t>(static_cast<std::int64_t>(kRunSeconds / 10 / once), 1, 1000)));
      n = std::clamp<std::int64_t>(static_cast<std::int64_t>(kRunSeconds / once), 1, 100000);
    }
    std::vector<double> runs;
    for (int i = 0; i < kRuns; ++i) {
      WEFT_TRY(const double seconds, run_of(request, n));
      runs.push_back(seconds);
    }
    std::nth_element(runs.begin(), runs.begin() + kRuns / 2, runs.end());
    return Duration::seconds(runs[kRuns / 2]);
  }

  // Seconds per operation; equal on all ranks.
  Result<double> run_of(const Request& request, std::int64_t n) {
    WEFT_CHECK(comm_.barrier());
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < n; ++i) WEFT_CHECK(comm_.run(request));
    const double mine = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(n);
    std::vector<double> all(static_cast<std::size_t>(comm_.ranks()));
    WEFT_CHECK(comm_.all_gather(std::span<const double>(&mine, 1), std::span<double>(all)));
    return *std::max_element(all.begin(), all.end());
  }

  void describe(BenchRow& row, const Request& request, Bytes elements) const {
    const schedule::Task task{.collective = spec_.collective,
                              .ranks = comm_.ranks(),
                              .ranks_per_node = comm_.ranks(),
                              .elements = elements,
                              .element_bytes = size_of(spec_.type)};
    tune::Question question =
        api::question_of(task, request, api::capabilities_of(report_.transport), !spec_.unregistered);
    question.algorithm = row.algorithm;
    question.protocol = row.protocol;
    question.channels = row.channels;
    if (const auto predicted = tune::choose(*machine_.view, question)) row.predicted = predicted->estimate.total;
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

// A rank of a job, whoever started it.
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
  WEFT_CHECK(api::check_forced(settings));
  WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine());
  const std::string& transport = spec.transport.empty() ? settings.transport : spec.transport;
  BenchReport report{.world = "real",
                     .machine = "this",
                     .transport = transport.empty() ? "shm" : transport,
                     .collective = spec.collective_name,
                     .type = spec.type_name,
                     .op = schedule::reduces(spec.collective) ? spec.op_name : "none",
                     .ranks = 0,
                     .rates = "rates " + rates.source,
                     .rows = {}};
  WEFT_TRY(const auto job, net::bootstrap::job_of(settings));
  if (job) {  // started by `weft run` or alike: one rank of a job
    // Ranks must choose by the same rates; where nobody handed them down, by the usual ones.
    const calibrate::Rates common = settings.rates.empty() ? calibrate::typical() : rates;
    report.rates = "rates " + common.source;
    return join_and_run(spec, settings, *job, transport, common, report);
  }
  WEFT_TRY(report.ranks, ranks_on(machine, spec.ranks));
  Machine here = machine;
  if (report.transport == "tcp") {
    WEFT_TRY(auto network, api::this_network(rates, report.ranks));
    here.view = std::make_shared<cost::MachineView>(std::move(network));
  }
  // A forced choice that cannot serve is said once, before anything starts.
  const schedule::Task probe{.collective = spec.collective,
                             .ranks = report.ranks,
                             .ranks_per_node = report.ranks,
                             .elements = report.ranks,
                             .element_bytes = size_of(spec.type)};
  WEFT_TRY(const auto possible,
           tune::choose(*here.view, api::question_of(probe,
                                                     {.algorithm = spec.algorithm,
                                                      .protocol = spec.protocol,
                                                      .channels = static_cast<int>(spec.channels)},
                                                     api::capabilities_of(report.transport), !spec.unregistered)));
  (void)possible;
  if (report.transport == "threads") {
    WEFT_TRY(auto comms, api::open_threads(report.ranks, settings, machine.view));
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
