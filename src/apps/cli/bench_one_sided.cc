#include "apps/cli/bench_one_sided.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "api/open.h"
#include "apps/cli/launch.h"
#include "apps/cli/rates.h"
#include "base/env.h"
#include "base/text.h"
#include "net/bootstrap/job.h"
#include "weft/pgas.h"

namespace weft::cli {
namespace {

using pgas::AtomicOp;
using pgas::Compare;
using pgas::SignalOp;
using pgas::World;
using Word = std::uint64_t;

using Row = OneSidedRow;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Median time of one of `n` operations, of `body` and of `bound` in turn, so that both see the same machine; 0 of a
// bound that there is not. All ranks call it and do the same.
Result<std::pair<double, double>> medians(World& world, std::int64_t n, const std::function<void(std::int64_t)>& body,
                                          const std::function<void(std::int64_t)>& bound) {
  constexpr int kRuns = 9;
  std::vector<double> times[2];
  for (int run = 0; run < kRuns; ++run) {
    for (int which = 0; which < 2; ++which) {
      const auto& measured = which == 0 ? body : bound;
      WEFT_CHECK(world.barrier());
      const double begin = now();
      if (measured) measured(n);
      times[which].push_back((now() - begin) / static_cast<double>(n));
    }
  }
  for (auto& t : times) std::nth_element(t.begin(), t.begin() + kRuns / 2, t.end());
  return std::pair(times[0][kRuns / 2], bound ? times[1][kRuns / 2] : 0);
}

// Two ranks in turn: the first `send`s, the second answers alike; a round of n is 2 n messages one after the other.
// `number` counts messages, so that a flag says which has come.
class PingPong {
 public:
  PingPong(World& world, Word* flag) : world_(world), flag_(flag) {}
  void run(std::int64_t n, const std::function<void(Word number)>& send) {
    if (world_.rank() > 1) return;
    for (std::int64_t i = 0; i < n; ++i) {
      ++number_;
      if (world_.rank() == 0) send(number_);
      while (std::atomic_ref(*flag_).load(std::memory_order_acquire) < number_) {
      }
      if (world_.rank() == 1) send(number_);
    }
  }

 private:
  World& world_;
  Word* flag_;
  Word number_ = 0;
};

// What both ranks have: a flag on a line of its own, a target, a source.
struct Stage {
  Word* flag;
  std::byte* target;
  std::vector<std::byte> source;
  std::byte* peer_target;  // null: not mapped here
  Word* peer_flag;
  Rank peer;
  bool mapped() const { return peer_target != nullptr; }
};

std::int64_t repetitions(Bytes bytes) {
  return std::clamp<std::int64_t>((std::int64_t{8} << 20) / std::max<Bytes>(bytes, 1), 4, 5000);
}

void plain_put(const Stage& s, Bytes bytes, Word number) {
  std::memcpy(s.peer_target, s.source.data(), static_cast<std::size_t>(bytes));
  std::atomic_ref(*s.peer_flag).store(number, std::memory_order_release);
}

Result<Row> latency(World& world, const Stage& s, Bytes bytes, const std::string& what,
                    const std::function<void(Word)>& send) {
  PingPong turns(world, s.flag);
  std::function<void(std::int64_t)> bound;
  if (s.mapped()) bound = [&](std::int64_t n) { turns.run(n, [&](Word number) { plain_put(s, bytes, number); }); };
  const auto body = [&](std::int64_t n) { turns.run(n, send); };
  WEFT_TRY(const auto times, medians(world, repetitions(bytes), body, bound));
  std::atomic_ref(*s.flag).store(0);  // the next measurement counts from one again
  WEFT_CHECK(world.barrier());
  return Row{bytes, what, times.first * 0.5e6, times.second * 0.5e6};
}

// One rank alone, operations back to back.
Result<Row> stream(World& world, const Stage& s, Bytes bytes, const std::string& what,
                   const std::function<void()>& operation, const std::function<void()>& bound) {
  const auto repeated = [&](const std::function<void()>& one) -> std::function<void(std::int64_t)> {
    return [&world, &one](std::int64_t n) {
      if (world.rank() != 0) return;
      for (std::int64_t i = 0; i < n; ++i) one();
      world.quiet();
    };
  };
  WEFT_TRY(const auto times,
           medians(world, repetitions(bytes), repeated(operation), s.mapped() ? repeated(bound) : nullptr));
  return Row{bytes, what, times.first * 1e6, times.second * 1e6};
}

Result<std::vector<Row>> put_rows(World& world, const Stage& s, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  std::vector<Row> rows(2);
  WEFT_TRY(rows[0], latency(world, s, bytes, "put, fence, flag", [&](Word number) {
             world.put(s.target, s.source.data(), size, s.peer);
             world.fence();
             world.atomic(AtomicOp::kSet, s.flag, number, s.peer);
           }));
  WEFT_TRY(rows[1],
           stream(
               world, s, bytes, "back-to-back puts", [&] { world.put(s.target, s.source.data(), size, s.peer); },
               [&] { std::memcpy(s.peer_target, s.source.data(), size); }));
  return rows;
}

Result<std::vector<Row>> get_rows(World& world, Stage& s, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  WEFT_TRY(const Row row,
           stream(
               world, s, bytes, "back-to-back gets", [&] { world.get(s.source.data(), s.target, size, s.peer); },
               [&] { std::memcpy(s.source.data(), s.peer_target, size); }));
  return std::vector{row};
}

Result<std::vector<Row>> signal_rows(World& world, const Stage& s, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  std::vector<Row> rows(2);
  WEFT_TRY(rows[0], latency(world, s, bytes, "put_signal", [&](Word number) {
             world.put_signal(s.target, s.source.data(), size, s.flag, number, SignalOp::kSet, s.peer);
           }));
  WEFT_TRY(rows[1], latency(world, s, bytes, "put, quiet, put", [&](Word number) {
             world.put(s.target, s.source.data(), size, s.peer);
             world.quiet();
             world.put(s.flag, number, s.peer);
           }));
  return rows;
}

Result<std::vector<Row>> atomic_rows(World& world, const Stage& s) {
  std::vector<Row> rows;
  const auto add = [&](const char* what, AtomicOp op, const std::function<void()>& bound) -> Status {
    WEFT_TRY(Row row, stream(
                          world, s, sizeof(Word), what, [&] { world.atomic(op, s.flag, Word{1}, s.peer); }, bound));
    rows.push_back(std::move(row));
    return {};
  };
  Word nowhere = 0;
  std::atomic_ref<Word> cell(s.mapped() ? *s.peer_flag : nowhere);
  volatile Word kept = 0;
  WEFT_CHECK(add("fetch", AtomicOp::kFetch, [&] { kept = cell.load(std::memory_order_acquire); }));
  WEFT_CHECK(add("set", AtomicOp::kSet, [&] { cell.store(1, std::memory_order_release); }));
  WEFT_CHECK(add("fetch_add", AtomicOp::kAdd, [&] { kept = cell.fetch_add(1); }));
  WEFT_CHECK(add("swap", AtomicOp::kSwap, [&] { kept = cell.exchange(1); }));
  WEFT_CHECK(add("compare_swap", AtomicOp::kCompareSwap, [&] {
    Word expected = 0;
    cell.compare_exchange_strong(expected, 1);
    kept = expected;
  }));
  // All ranks at once on one cell, where the line travels between the cores: not on that of rank 0, which reports.
  const Rank last = world.ranks() - 1;
  Word* const home = world.pointer(s.flag, last);
  std::function<void(std::int64_t)> plain;
  if (s.mapped())
    plain = [&](std::int64_t n) {
      while (n-- > 0) kept = std::atomic_ref(*home).fetch_add(1);
    };
  const auto all = [&](std::int64_t n) {
    while (n-- > 0) world.fetch_add(s.flag, Word{1}, last);
  };
  WEFT_TRY(const auto times, medians(world, s.mapped() ? 5000 : 200, all, plain));
  rows.push_back({sizeof(Word), "fetch_add by all", times.first * 1e6, times.second * 1e6});
  return rows;
}

Result<Stage> stage_of(World& world, Bytes most) {
  Stage s{};
  const auto size = static_cast<std::size_t>(std::max<Bytes>(most, 8));
  WEFT_TRY(void* const flag, world.allocate(sizeof(Word)));
  WEFT_TRY(void* const target, world.allocate(size, 4096));
  s.flag = static_cast<Word*>(flag);
  s.target = static_cast<std::byte*>(target);
  s.source.assign(size, std::byte{1});
  s.peer = world.rank() == 0 ? 1 : 0;
  s.peer_target = world.pointer(s.target, s.peer);
  s.peer_flag = world.pointer(s.flag, s.peer);
  *s.flag = 0;
  std::memset(s.target, 0, size);
  WEFT_CHECK(world.barrier());
  return s;
}

Result<std::vector<Row>> rows_of(const std::string& operation, World& world, Stage& s, Bytes bytes) {
  if (operation == "put") return put_rows(world, s, bytes);
  if (operation == "get") return get_rows(world, s, bytes);
  if (operation == "put_signal") return signal_rows(world, s, bytes);
  return atomic_rows(world, s);
}

Status measure(const BenchSpec& spec, World& world) {
  WEFT_TRY(auto sizes, sizes_of(spec.sweep));
  WEFT_TRY(Stage s, stage_of(world, sizes.back()));
  if (spec.sweep.collective_name == "atomic") sizes = {sizeof(Word)};
  const bool prints = world.rank() == 0, mapped = s.mapped();
  OneSidedTable table(spec, "real", "this", world.ranks());
  WEFT_TRY(const env::Settings settings, env::read());
  const std::string across = api::across(settings.transport);
  if (prints)
    table.header(fmt::format("this (real, {})", mapped ? "shm" : across),
                 mapped ? "the same by plain loads and stores" : "none, memory is not mapped");
  for (const Bytes bytes : sizes) {
    WEFT_TRY(auto rows, rows_of(spec.sweep.collective_name, world, s, bytes));
    for (Row& row : rows)
      if (prints) table.row(std::move(row));
  }
  return prints ? table.write() : Status{};
}

int run_rank(const BenchSpec& spec) {
  auto world = World::from_environment();
  if (!world) return report_error(world.error());
  const Status done = measure(spec, *world);
  return done ? 0 : report_error(done.error());
}

}  // namespace

bool is_one_sided(const std::string& name) {
  return name == "put" || name == "get" || name == "put_signal" || name == "atomic";
}

Result<int> bench_one_sided(const BenchSpec& spec) {
  const std::string& name = spec.sweep.collective_name;
  if (!spec.forced.algorithm.empty() || !spec.forced.protocol.empty() || spec.forced.channels != 0)
    return bad_input("bench {}: --algo, --proto and --channels are for collectives", name);
  if (!spec.on.empty()) return bench_one_sided_simulated(spec);
  if (spec.transport == "threads") return bad_input("bench {}: one-sided operations are between processes", name);
  WEFT_CHECK(env::check_transport("--transport", spec.transport));
  WEFT_TRY(const auto sizes, sizes_of(spec.sweep));
  (void)sizes;
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(const auto job, net::bootstrap::job_of(settings));
  if (job) return run_rank(spec);  // started by `weft run` or alike
  WEFT_TRY(const std::int64_t ranks,
           parse_integer("--ranks", spec.sweep.ranks_text.empty() ? "2" : spec.sweep.ranks_text, 2, 512));
  WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine());
  const std::string transport = api::within(spec.transport.empty() ? settings.transport : spec.transport);
  return launch(static_cast<Rank>(ranks), transport, calibrate::to_text(rates), [&](const std::vector<Setting>& given) {
    for (const auto& [variable, value] : given) setenv(variable.c_str(), value.c_str(), 1);
    return run_rank(spec);
  });
}

}  // namespace weft::cli
