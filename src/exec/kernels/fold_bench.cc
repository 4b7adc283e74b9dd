// The rate of every fold against what this machine's memory or L2 allows: the rate of a loop that only loads two
// vectors and stores one, over the same bytes with the same kind of stores, measured right before.
//
//   build/weft_exec_bench                      all types and operations, in the L2 and in memory
//   build/weft_exec_bench --benchmark_filter=/bfloat16/
//
// Each row is the best of many short runs, so that a noisy machine does not decide: GBps counts all bytes that are
// loaded and stored, ratio is that over the bound's. "L2": 2 sources and 1 destination of 80 KiB each; "memory": of 64
// MiB each.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "exec/kernels/divide.h"
#include "exec/kernels/fold.h"
#include "plan/schedule/element.h"
#include "weft/communicator.h"

namespace weft::exec {
namespace {

using Clock = std::chrono::steady_clock;

struct Place {
  const char* name;
  std::size_t bytes;  // of each of the three arrays
  Stores stores;
};
constexpr Place kPlaces[] = {{"L2", std::size_t{80} << 10, Stores::kCached},
                             {"memory", std::size_t{64} << 20, Stores::kStreamed}};

class Arrays {
 public:
  explicit Arrays(std::size_t bytes) : bytes_(bytes) {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kHuge, (3 * bytes + kHuge - 1) / kHuge * kHuge)));
    madvise(memory_.get(), 3 * bytes, MADV_HUGEPAGE);
    std::memset(memory_.get(), 0, 3 * bytes);
  }
  std::byte* at(int i) const { return memory_.get() + static_cast<std::size_t>(i) * bytes_; }
  std::size_t bytes() const { return bytes_; }

  // Ordinary values: whole numbers for integers, between 1/2 and 2 in size for floats.
  template <class T>
  void fill() {
    for (int s = 0; s < 2; ++s) {
      auto* x = reinterpret_cast<T*>(at(s));
      std::uint32_t state = 12345 + static_cast<std::uint32_t>(s);
      for (std::size_t i = 0; i < bytes_ / sizeof(T); ++i) {
        state = state * 1664525 + 1013904223;
        const auto upper = static_cast<float>(state >> 9) * 0x1p-23f;
        x[i] = std::is_integral_v<T> ? static_cast<T>(state >> 8)
                                     : static_cast<T>((state & 128 ? -1 : 1) * (0.5f + 1.5f * upper));
      }
    }
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

const Arrays& arrays(const Place& place, DataType type) {
  static std::map<std::string, Arrays> all;
  static std::map<std::string, DataType> filled;
  Arrays& a = all.try_emplace(place.name, place.bytes).first->second;
  if (auto [it, fresh] = filled.try_emplace(place.name, type); fresh || it->second != type) {
    it->second = type;
    const auto fill = [&]<class... T>(std::type_identity<T>...) {
      ((data_type_of<T>() == type ? a.fill<T>() : void()), ...);
    };
    fill(std::type_identity<std::int8_t>(), std::type_identity<std::int16_t>(), std::type_identity<std::int32_t>(),
         std::type_identity<std::int64_t>(), std::type_identity<std::uint8_t>(), std::type_identity<std::uint16_t>(),
         std::type_identity<std::uint32_t>(), std::type_identity<std::uint64_t>(), std::type_identity<Float16>(),
         std::type_identity<Bfloat16>(), std::type_identity<float>(), std::type_identity<double>(),
         std::type_identity<Float8E4M3>(), std::type_identity<Float8E5M2>());
  }
  return a;
}

// The least seconds of one call, over runs of about a millisecond.
template <class Work>
double best_of(std::size_t bytes, int runs, Work&& work) {
  const auto repeats = std::max<std::size_t>(1, (std::size_t{32} << 20) / bytes);
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < repeats; ++i) work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(repeats));
  }
  return best;
}

constexpr int kRuns = 7;

// The bound: `or` of bytes is one load, one load-and-or and one store per vector, and nothing cheaper exists that
// touches the same memory.
double bound_seconds(const Arrays& a, Stores stores) {
  const std::byte* sources[] = {a.at(0), a.at(1)};
  std::byte* destinations[] = {a.at(2)};
  const fabric::Fold fold = fold_for(DataType::kUint8, ReduceOp::kOr, stores);
  return best_of(a.bytes(), kRuns, [&] { fold(destinations, 1, sources, 2, static_cast<Bytes>(a.bytes()), nullptr); });
}

void fold_rate(benchmark::State& state, const Place& place, DataType type, ReduceOp op) {
  const Arrays& a = arrays(place, type);
  const std::byte* sources[] = {a.at(0), a.at(1)};
  std::byte* destinations[] = {a.at(2)};
  const Scalar scales[] = {{0.5, 3}, {0.5, 3}};
  const bool scaled = op == ReduceOp::kPremulSum || (op == ReduceOp::kAvg && is_float(type));
  const fabric::Fold fold = fold_for(type, op, place.stores);
  double best = 1e9, bound = 1e9;
  for (auto _ : state) {
    bound = std::min(bound, bound_seconds(a, place.stores));
    const double seconds = best_of(a.bytes(), kRuns, [&] {
      fold(destinations, 1, sources, 2, static_cast<Bytes>(a.bytes()), scaled ? scales : nullptr);
    });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const double gigabytes = 3e-9 * static_cast<double>(a.bytes());
  state.counters["bound_GBps"] = gigabytes / bound;
  state.counters["GBps"] = gigabytes / best;
  state.counters["ratio"] = bound / best;
}

// Division in place, after the sum of an average: against a copy within the same bytes.
void divide_rate(benchmark::State& state, const Place& place, DataType type) {
  const Arrays& a = arrays(place, type);
  double best = 1e9, bound = 1e9;
  const std::byte* sources[] = {a.at(0), a.at(0)};
  std::byte* destinations[] = {a.at(0)};
  const fabric::Fold same = fold_for(DataType::kUint8, ReduceOp::kOr);
  for (auto _ : state) {
    bound = std::min(bound, best_of(a.bytes(), kRuns, [&] {
                       same(destinations, 1, sources, 2, static_cast<Bytes>(a.bytes()), nullptr);
                     }));
    const double seconds = best_of(a.bytes(), kRuns, [&] { divide(type, a.at(0), static_cast<Bytes>(a.bytes()), 3); });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["bound_GBps"] = 2e-9 * static_cast<double>(a.bytes()) / bound;
  state.counters["GBps"] = 2e-9 * static_cast<double>(a.bytes()) / best;
  state.counters["ratio"] = bound / best;
}

template <class... Args>
void add(const std::string& name, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->UseManualTime()->Iterations(3)->Unit(benchmark::kMicrosecond);
}

bool register_all() {
  for (const Place& place : kPlaces)
    for (int t = 0; t < kDataTypes; ++t) {
      const auto type = static_cast<DataType>(t);
      for (int o = 0; o < kReduceOps; ++o) {
        const auto op = static_cast<ReduceOp>(o);
        if (applies(type, op))
          add(fmt::format("{}/{}/{}", place.name, schedule::name(type), schedule::name(op)), fold_rate, place, type,
              op);
      }
      if (!is_float(type)) add(fmt::format("{}/{}/divide", place.name, schedule::name(type)), divide_rate, place, type);
    }
  return true;
}

[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace weft::exec
