#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include "api/chooser.h"
#include "api/connect.h"
#include "api/open.h"
#include "apps/cli/bench.h"
#include "apps/cli/launch.h"
#include "apps/cli/rates.h"
#include "apps/cli/trial.h"
#include "base/counted.h"
#include "base/env.h"
#include "base/text.h"
#include "plan/collectives/registry.h"

namespace weft::cli {
namespace {

// One line of the table: a way to do a collective.
struct Way {
  Collective collective;
  const schedule::Algorithm* algorithm;
  protocol::Protocol protocol;
};

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const Collective c : schedule::kCollectives)
    for (const schedule::Algorithm* a : collectives::algorithms_for(c)) {
      if (c == Collective::kAllToAllV && !a->uneven) continue;
      for (const protocol::Protocol p : protocol::kProtocols)
        if (schedule::fits(*a, p)) ways.push_back({c, a, p});
    }
  return ways;
}

// The result of a job's rank 0; it lies in memory that the rank shares with the command.
struct Cell {
  double seconds = -1;       // of one operation of the largest size; negative: does not serve
  std::int64_t errors = -1;  // wrong elements of all sizes; negative: not checked
};

class Cells {
 public:
  Cells(std::size_t ways, std::size_t jobs) : jobs_(jobs) {
    void* memory = mmap(nullptr, ways * jobs * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cells_ = memory == MAP_FAILED ? nullptr : static_cast<Cell*>(memory);
    for (std::size_t i = 0; cells_ != nullptr && i < ways * jobs; ++i) cells_[i] = Cell{};
  }
  bool valid() const { return cells_ != nullptr; }
  Cell& at(std::size_t way, std::size_t job) { return cells_[way * jobs_ + job]; }

 private:
  std::size_t jobs_;
  Cell* cells_;  // for the life of the command
};

// Sizes that are checked besides the one that is timed: one element, and counts that nothing divides.
constexpr Bytes kOdd[] = {1, 4 * 1009, 4 * 20011};

// One rank of one job: tries every way.
Status run_rank(const BenchSpec& spec, Communicator& comm, const std::vector<Way>& ways, std::size_t job,
                Cells& cells) {
  WEFT_TRY(const Bytes timed, parse_message("--max", spec.sweep.largest));
  const auto task = [&](Collective c, Bytes bytes) {
    schedule::Task t = task_of(c, comm.ranks(), comm.ranks(), bytes, spec.sweep.type);
    t.root = static_cast<Rank>(spec.sweep.root) % comm.ranks();
    return t;
  };
  Bytes most = 0;
  for (const Way& way : ways)
    for (const Bytes bytes : {timed, kOdd[2]})
      most = std::max(most, Trial::memory_for(task(way.collective, bytes), comm.rank()));
  WEFT_TRY(Memory in, comm.allocate(static_cast<std::size_t>(most)));
  WEFT_TRY(Memory out, comm.allocate(static_cast<std::size_t>(most)));
  for (std::size_t w = 0; w < ways.size(); ++w) {
    const Way& way = ways[w];
    Cell cell;
    const auto trial_of = [&](Bytes bytes, bool in_place) {
      return Trial(comm,
                   {.task = task(way.collective, bytes),
                    .type = spec.sweep.type,
                    .op = spec.sweep.op,
                    .in_place = in_place,
                    .algorithm = std::string(way.algorithm->name),
                    .protocol = std::string(protocol::traits(way.protocol).name)},
                   static_cast<std::byte*>(in.data()), static_cast<std::byte*>(out.data()));
    };
    Trial trial = trial_of(timed, false);
    if (const Status first = trial.run(); !first) {
      if (first.error().blame != Blame::kInput && first.error().code != Code::kUnsupported) return first;
      continue;
    }
    if (spec.sweep.check) {
      WEFT_TRY(cell.errors, trial.count_errors());
      for (const Bytes bytes : kOdd)
        for (const bool in_place : {false, true}) {
          Trial odd = trial_of(bytes, in_place);
          WEFT_CHECK(odd.run());
          WEFT_TRY(const std::int64_t errors, odd.count_errors());
          cell.errors += errors;
        }
    }
    constexpr double kRunSeconds = 0.002;
    WEFT_TRY(const Duration time, trial.time(spec.sweep.iterations, kRunSeconds));
    cell.seconds = time.s();
    if (comm.rank() == 0) cells.at(w, job) = cell;
  }
  return {};
}

int exit_code(const Status& status) { return status ? 0 : report_error(status.error()); }

Result<int> run_job(const BenchSpec& spec, const Machine& machine, Rank ranks, const env::Settings& settings,
                    const calibrate::Rates& rates, const std::vector<Way>& ways, std::size_t job, Cells& cells) {
  if (spec.transport == "threads") {
    WEFT_TRY(auto comms, api::open_threads(ranks, settings, rates, machine.view));
    std::vector<int> codes(comms.size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < comms.size(); ++r)
      threads.emplace_back([&, r] { codes[r] = exit_code(run_rank(spec, comms[r], ways, job, cells)); });
    for (auto& t : threads) t.join();
    return *std::max_element(codes.begin(), codes.end());
  }
  return launch(ranks, spec.transport, calibrate::to_text(rates), [&](const std::vector<Setting>& given) {
    for (const auto& [name, value] : given) setenv(name.c_str(), value.c_str(), 1);
    auto own = env::read();
    if (!own) return report_error(own.error());
    auto rank = net::bootstrap::job_of(*own);
    if (!rank) return report_error(rank.error());
    auto joined = api::join(*own, **rank, spec.transport, rates);
    return joined ? exit_code(run_rank(spec, joined->comm, ways, job, cells)) : report_error(joined.error());
  });
}

void print_row(const Way& way, std::size_t w, std::size_t jobs, Cells& cells) {
  fmt::print("{:<16} {:<18} {:<7}", schedule::name(way.collective), way.algorithm->name,
             protocol::traits(way.protocol).name);
  std::int64_t errors = -1;
  for (std::size_t j = 0; j < jobs; ++j) {
    const Cell& cell = cells.at(w, j);
    fmt::print(" {:>9}", cell.seconds < 0 ? "-" : fmt::format("{:.2f}", cell.seconds * 1e6));
    if (cell.errors >= 0) errors = std::max<std::int64_t>(errors, 0) + cell.errors;
  }
  fmt::print(" {:>8}\n", errors < 0 ? "N/A" : std::to_string(errors));
}

}  // namespace

Result<int> bench_all(const BenchSpec& asked, const Machine& machine, const std::vector<Rank>& ranks) {
  WEFT_TRY(const env::Settings settings, env::read());
  BenchSpec spec = asked;
  spec.transport = api::within(spec.transport.empty() ? settings.transport : spec.transport);
  WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine(spec.transport));
  const std::vector<Way> ways = all_ways();
  Cells cells(ways.size(), ranks.size());
  if (!cells.valid()) return failure(Code::kNoResources, Blame::kProcess, "no memory for the results");
  for (std::size_t job = 0; job < ranks.size(); ++job) {
    WEFT_TRY(const Rank n, ranks_on(machine, ranks[job]));
    WEFT_TRY(const int code, run_job(spec, machine, n, settings, rates, ways, job, cells));
    if (code != 0) return code;
  }
  nlohmann::json rows = nlohmann::json::array();
  std::int64_t wrong = 0, served = 0;
  if (spec.json != "-") {
    fmt::print("# every collective, algorithm and protocol: time in us of {} of {} {} ({}), by number of ranks\n",
               spec.sweep.largest, spec.sweep.type_name, spec.sweep.op_name, spec.transport);
    fmt::print("# {:<14} {:<18} {:<7} {:>9} {:>8}\n", "collective", "algorithm", "proto", fmt::join(ranks, "         "),
               "#wrong");
  }
  for (std::size_t w = 0; w < ways.size(); ++w) {
    if (spec.json != "-") print_row(ways[w], w, ranks.size(), cells);
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      const Cell& cell = cells.at(w, j);
      if (cell.seconds < 0) continue;
      ++served;
      wrong += std::max<std::int64_t>(0, cell.errors);
      rows.push_back({{"collective", schedule::name(ways[w].collective)},
                      {"algorithm", ways[w].algorithm->name},
                      {"protocol", protocol::traits(ways[w].protocol).name},
                      {"ranks", ranks[j]},
                      {"time_us", cell.seconds * 1e6},
                      {"errors", cell.errors}});
    }
  }
  if (spec.json != "-")
    fmt::print("# {} ways on {} numbers of ranks: {}, {} wrong elements{}\n", ways.size(), ranks.size(),
               counted(served, "run"), wrong, spec.sweep.check ? "" : " (not checked)");
  if (!spec.json.empty())
    WEFT_CHECK(write_json(spec.json, {{"schema", "weft.bench_all/1"}, {"transport", spec.transport}, {"rows", rows}}));
  return wrong > 0 ? kBadAnswer : 0;
}

}  // namespace weft::cli
