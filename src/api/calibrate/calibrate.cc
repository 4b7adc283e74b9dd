#include "api/calibrate/calibrate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "api/calibrate/cpus.h"
#include "api/calibrate/tcp.h"
#include "api/calibrate/ucx.h"
#include "base/streamed_copy.h"
#include "base/text.h"
#include "exec/kernels/fold.h"
#include "net/memory/segment.h"

namespace weft::calibrate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void on_each(const std::vector<int>& cpus, const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cpus.size(); ++i)
    threads.emplace_back([&, i] {
      pin_to(cpus[i]);
      work(i);
    });
  for (auto& t : threads) t.join();
}

// The most bytes per second that all `cpus` together read and write in c = a + b on arrays of `bytes` each, at once: a
// limit is what was reached at best, however noisy the machine.
double fold_rate(const std::vector<int>& cpus, std::size_t bytes, exec::Stores stores, int runs, int repeats) {
  const fabric::Fold fold = exec::fold_for(DataType::kFloat32, ReduceOp::kSum, stores);
  std::vector<std::vector<double>> rates(static_cast<std::size_t>(runs), std::vector<double>(cpus.size()));
  std::atomic<std::size_t> arrived = 0;
  on_each(cpus, [&](std::size_t self) {
    constexpr std::size_t kAlign = std::size_t{2} << 20;
    struct Free {
      void operator()(void* p) const { std::free(p); }
    };
    const std::size_t size = (3 * bytes + kAlign - 1) / kAlign * kAlign;
    const std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(std::aligned_alloc(kAlign, size)));
    madvise(memory.get(), size, MADV_HUGEPAGE);  // the limit is the memory's, not the page walker's
    std::memset(memory.get(), 0, size);
    const std::byte* sources[] = {memory.get(), memory.get() + bytes};
    std::byte* destinations[] = {memory.get() + 2 * bytes};
    for (int run = 0; run < runs; ++run) {
      ++arrived;
      while (arrived < cpus.size() * static_cast<std::size_t>(run + 1)) std::this_thread::yield();
      const auto start = Clock::now();
      for (int i = 0; i < repeats; ++i) fold(destinations, 1, sources, 2, static_cast<Bytes>(bytes), nullptr);
      rates[static_cast<std::size_t>(run)][self] = 3.0 * static_cast<double>(bytes) * repeats / seconds_since(start);
    }
  });
  std::vector<double> sums;
  for (const auto& run : rates) {
    double sum = 0;
    for (const double r : run) sum += r;
    sums.push_back(sum);
  }
  return *std::max_element(sums.begin(), sums.end());
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
  return *std::min_element(times.begin(), times.end());
}

// Bytes per second that a thread copies at best, into a ring of slots or out of one, while two hand each other
// messages: as in collectives each stores a slot and loads one in turn.
double slots_rate(const std::vector<int>& cpus, void (*copy)(std::byte*, const std::byte*, std::size_t)) {
  constexpr std::size_t kSlot = net::memory::kSlotBytes, kSlots = net::memory::kRingBytes / kSlot;
  constexpr std::size_t kMessages = 16, kRuns = 15;  // both sides' own memory and both rings: what two usual L2 hold
  struct alignas(64) Count {
    std::atomic<std::size_t> value = 0;
  };
  struct Way {
    Count sent, taken;
    std::vector<std::byte> ring = std::vector<std::byte>(kSlots * kSlot);
  } ways[2];
  std::vector<double> times;
  on_each({cpus[0], cpus[1]}, [&](std::size_t self) {
    std::vector<std::byte> from(kMessages * kSlot), to(kMessages * kSlot);
    Way &out = ways[self], &in = ways[1 - self];
    const auto place = [&](std::size_t i) { return i % kMessages * kSlot; };
    for (std::size_t run = 0; run < kRuns; ++run) {
      const auto start = Clock::now();
      const std::size_t end = (run + 1) * kMessages;
      for (std::size_t sent = end - kMessages, taken = sent; taken < end;) {
        if (sent < end && sent - out.taken.value.load(std::memory_order_acquire) < kSlots) {
          copy(out.ring.data() + sent % kSlots * kSlot, from.data() + place(sent), kSlot);
          out.sent.value.store(++sent, std::memory_order_release);
        }
        if (in.sent.value.load(std::memory_order_acquire) > taken) {
          std::memcpy(to.data() + place(taken), in.ring.data() + taken % kSlots * kSlot, kSlot);
          in.taken.value.store(++taken, std::memory_order_release);
        }
      }
      if (self == 1) times.push_back(seconds_since(start));
    }
  });
  return 2 * kMessages * kSlot / *std::min_element(times.begin(), times.end());
}

void plain_copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

Bytes cache_of(int what, Bytes otherwise) {
  const long size = sysconf(what);
  return size > 0 ? size : otherwise;  // a usual one where the system does not report it
}

}  // namespace

Rates measure(bool ucx) {
  const std::vector<int> cpus = usable_cpus();
  const auto count = static_cast<Bytes>(cpus.size());
  Rates r;
  r.own_cache = cache_of(_SC_LEVEL2_CACHE_SIZE, Bytes{1} << 20) * count;
  // Virtual machines report the whole chip's last-level cache, of which they own a part.
  r.shared_cache = std::max(r.own_cache, std::min(cache_of(_SC_LEVEL3_CACHE_SIZE, Bytes{32} << 20), Bytes{32} << 20));
  constexpr Bytes kOwn = 64 << 10, kLarge = 32 << 20, kArrays = 3;
  const Bytes shared = std::max(kOwn, (r.own_cache + r.shared_cache) / 2 / count / kArrays / kOwn * kOwn);
  r.core = BytesPerSecond(fold_rate({cpus[0]}, kOwn, exec::Stores::kCached, 7, 200));
  r.shared = BytesPerSecond(fold_rate(cpus, static_cast<std::size_t>(shared), exec::Stores::kCached, 9, 3));
  r.memory = BytesPerSecond(fold_rate(cpus, kLarge, exec::Stores::kStreamed, 7, 1));
  r.core_to_core = Duration::seconds(line_seconds(cpus));
  if (count > 1) {
    r.plain_slots = BytesPerSecond(slots_rate(cpus, plain_copy));
    r.streamed_slots = BytesPerSecond(slots_rate(cpus, streamed_copy));
  }
  measure_tcp(r);
  if (ucx) measure_ucx(r);
  r.source = "measured " + today();
  return r;
}

Rates measure_unbound() {
  Rates rates;
  std::thread([&] {
    unbind();
    rates = measure();
  }).join();
  return rates;
}

Rates typical() {
  // `weft calibrate` on a two-core VM of an AMD EPYC (family 26), 2026-11-21, rounded.
  return {.core = BytesPerSecond::gigabytes(190),
          .shared = BytesPerSecond::gigabytes(200),
          .memory = BytesPerSecond::gigabytes(60),
          .core_to_core = Duration::nanoseconds(50),
          .own_cache = Bytes{2} << 20,
          .shared_cache = Bytes{32} << 20,
          .source = "typical server, not measured"};
}

namespace {

Result<Rates> from_json(const std::string& where, const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.value("schema", "") != "weft.rates/2") return bad_input("{}: schema is not weft.rates/2", where);
    const Rates r{.core = BytesPerSecond::gigabytes(json.at("core_GBps")),
                  .shared = BytesPerSecond::gigabytes(json.at("shared_GBps")),
                  .memory = BytesPerSecond::gigabytes(json.at("memory_GBps")),
                  .core_to_core = Duration::nanoseconds(json.at("core_to_core_ns")),
                  .plain_slots = BytesPerSecond::gigabytes(json.value("plain_slots_GBps", 0.0)),
                  .streamed_slots = BytesPerSecond::gigabytes(json.value("streamed_slots_GBps", 0.0)),
                  .own_cache = json.at("own_cache_bytes"),
                  .shared_cache = json.at("shared_cache_bytes"),
                  .tcp = Duration::microseconds(json.value("tcp_us", 0.0)),
                  .tcp_connection = BytesPerSecond::gigabytes(json.value("tcp_connection_GBps", 0.0)),
                  .ucx = Duration::microseconds(json.value("ucx_us", 0.0)),
                  .ucx_across = Duration::microseconds(json.value("ucx_across_us", 0.0)),
                  .ucx_connection = BytesPerSecond::gigabytes(json.value("ucx_connection_GBps", 0.0)),
                  .ucx_across_connection = BytesPerSecond::gigabytes(json.value("ucx_across_connection_GBps", 0.0)),
                  .source = json.at("source")};
    if (r.core.value() <= 0 || r.shared.value() <= 0 || r.memory.value() <= 0 || r.core_to_core.ps() <= 0 ||
        r.own_cache <= 0 || r.shared_cache < r.own_cache)
      return bad_input("{}: a rate that is not positive", where);
    return r;
  } catch (const std::exception& problem) {
    return bad_input("{}: {}", where, problem.what());
  }
}

}  // namespace

// Written without a JSON object, whose destructor allocates and so ends the process where no memory is left.
std::string to_text(const Rates& r) {
  return fmt::format(
      R"({{"schema":"weft.rates/2","core_GBps":{},"shared_GBps":{},"memory_GBps":{},"core_to_core_ns":{},)"
      R"("plain_slots_GBps":{},"streamed_slots_GBps":{},"tcp_us":{},"tcp_connection_GBps":{},"ucx_us":{},)"
      R"("ucx_connection_GBps":{},"ucx_across_us":{},"ucx_across_connection_GBps":{},"own_cache_bytes":{},)"
      R"("shared_cache_bytes":{},"source":{}}})",
      r.core.gb(), r.shared.gb(), r.memory.gb(), r.core_to_core.ns(), r.plain_slots.gb(), r.streamed_slots.gb(),
      r.tcp.us(), r.tcp_connection.gb(), r.ucx.us(), r.ucx_connection.gb(), r.ucx_across.us(),
      r.ucx_across_connection.gb(), r.own_cache, r.shared_cache, nlohmann::json(r.source).dump());
}
Result<Rates> from_text(const std::string& text) { return from_json("WEFT_RATES", text); }

Rates as_read(Rates r) {
  for (BytesPerSecond* rate : {&r.core, &r.shared, &r.memory, &r.plain_slots, &r.streamed_slots, &r.tcp_connection,
                               &r.ucx_connection, &r.ucx_across_connection})
    *rate = BytesPerSecond::gigabytes(rate->gb());
  r.core_to_core = Duration::nanoseconds(r.core_to_core.ns());
  for (Duration* time : {&r.tcp, &r.ucx, &r.ucx_across}) *time = Duration::microseconds(time->us());
  return r;
}

}  // namespace weft::calibrate
