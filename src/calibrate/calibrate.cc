#include "calibrate/calibrate.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "exec/kernels/fold.h"

namespace weft::calibrate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<int> usable_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) cpus.push_back(c);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void on_each(const std::vector<int>& cpus, const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cpus.size(); ++i)
    threads.emplace_back([&, i] {
      pin_to(cpus[i]);
      work(i);
    });
  for (auto& t : threads) t.join();
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Bytes per second that all `cpus` together read and write in c = a + b on arrays of `bytes` each, at once.
double fold_rate(const std::vector<int>& cpus, std::size_t bytes, int runs, int repeats) {
  const fabric::Fold fold = exec::fold_for(DataType::kFloat32, ReduceOp::kSum);
  std::vector<std::vector<double>> rates(static_cast<std::size_t>(runs), std::vector<double>(cpus.size()));
  std::atomic<std::size_t> arrived = 0;
  on_each(cpus, [&](std::size_t self) {
    constexpr std::size_t kAlign = 4096;
    struct Free {
      void operator()(void* p) const { std::free(p); }
    };
    const std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(std::aligned_alloc(kAlign, 3 * bytes)));
    std::memset(memory.get(), 0, 3 * bytes);
    const std::byte* sources[] = {memory.get(), memory.get() + bytes};
    std::byte* destinations[] = {memory.get() + 2 * bytes};
    for (int run = 0; run < runs; ++run) {
      ++arrived;
      while (arrived < cpus.size() * static_cast<std::size_t>(run + 1)) std::this_thread::yield();
      const auto start = Clock::now();
      for (int i = 0; i < repeats; ++i) fold(destinations, 1, sources, 2, static_cast<Bytes>(bytes));
      rates[static_cast<std::size_t>(run)][self] = 3.0 * static_cast<double>(bytes) * repeats / seconds_since(start);
    }
  });
  std::vector<double> sums;
  for (const auto& run : rates) {
    double sum = 0;
    for (const double r : run) sum += r;
    sums.push_back(sum);
  }
  return median(sums);
}

// Two threads hand one cache line to and fro.
double line_seconds(const std::vector<int>& cpus) {
  constexpr int kTrips = 20000, kRuns = 5;
  alignas(64) std::atomic<int> line = 0;
  const std::vector<int> pair = {cpus[0], cpus.size() > 1 ? cpus[1] : cpus[0]};
  const bool alone = cpus.size() < 2;
  const int trips = alone ? kTrips / 10 : kTrips;
  std::vector<double> times;
  on_each(pair, [&](std::size_t self) {
    for (int run = 0; run < kRuns; ++run) {
      const auto start = Clock::now();
      for (int i = 0; i < trips; ++i) {
        const int mine = (run * trips + i) * 2 + static_cast<int>(self);
        while (line.load(std::memory_order_acquire) != mine)
          if (alone) std::this_thread::yield();
        line.store(mine + 1, std::memory_order_release);
      }
      if (self == 0) times.push_back(seconds_since(start) / (2 * trips));
    }
  });
  return median(times);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::tm parts{};
  std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts));
  return text;
}

Bytes own_cache() {
  const long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return size > 0 ? size : Bytes{1} << 20;  // a usual L2 where the system does not tell
}

}  // namespace

Rates measure() {
  const std::vector<int> cpus = usable_cpus();
  Rates r;
  constexpr std::size_t kCached = 64 << 10, kLarge = 32 << 20;
  r.core = BytesPerSecond(fold_rate({cpus[0]}, kCached, 7, 200));
  r.memory = BytesPerSecond(fold_rate(cpus, kLarge, 5, 1));
  r.core_to_core = Duration::seconds(line_seconds(cpus));
  r.cache = own_cache() * static_cast<Bytes>(cpus.size());
  r.source = "measured " + today();
  return r;
}

Rates typical() {
  // Medians of `weft calibrate` on two-core server VMs (AMD EPYC Turin, Intel Sapphire Rapids), 2026-11-21, rounded.
  return {.core = BytesPerSecond::gigabytes(150),
          .memory = BytesPerSecond::gigabytes(40),
          .core_to_core = Duration::nanoseconds(70),
          .cache = Bytes{2} << 20,
          .source = "typical server, not measured"};
}

namespace {

nlohmann::json to_json(const Rates& r) {
  return {{"schema", "weft.rates/1"},     {"core_GBps", r.core.gb()},  {"memory_GBps", r.memory.gb()},
          {"core_to_core_ns", r.core_to_core.ns()}, {"cache_bytes", r.cache}, {"source", r.source}};
}

Result<Rates> from_json(const std::string& where, const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.value("schema", "") != "weft.rates/1") return bad_input("{}: schema is not weft.rates/1", where);
    const Rates r{.core = BytesPerSecond::gigabytes(json.at("core_GBps")),
                  .memory = BytesPerSecond::gigabytes(json.at("memory_GBps")),
                  .core_to_core = Duration::nanoseconds(json.at("core_to_core_ns")),
                  .cache = json.at("cache_bytes"),
                  .source = json.at("source")};
    if (r.core.value() <= 0 || r.memory.value() <= 0 || r.core_to_core.ps() <= 0 || r.cache <= 0)
      return bad_input("{}: a rate that is not positive", where);
    return r;
  } catch (const std::exception& problem) {
    return bad_input("{}: {}", where, problem.what());
  }
}

}  // namespace

std::string to_text(const Rates& r) { return to_json(r).dump(); }
Result<Rates> from_text(const std::string& text) { return from_json("WEFT_RATES", text); }

Result<Rates> load(const std::string& file) {
  std::ifstream in(file);
  if (!in) return failure(Code::kNotFound, Blame::kInput, "{}: no such file", file);
  return from_json(file, std::string(std::istreambuf_iterator<char>(in), {}));
}

Status save(const Rates& r, const std::string& file) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  const std::string fresh = fmt::format("{}.{}", file, getpid());
  {
    std::ofstream out(fresh);
    out << to_json(r).dump(2) << "\n";
    if (!out) return failure(Code::kSystem, Blame::kOperation, "cannot write {}", fresh);
  }
  std::filesystem::rename(fresh, file, error);
  if (error) return failure(Code::kSystem, Blame::kOperation, "cannot write {}: {}", file, error.message());
  return {};
}

}  // namespace weft::calibrate
