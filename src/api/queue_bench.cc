// How long a caller still waits for 64 MiB over tcp after 200 ms of computing: two ranks of one process. Per iteration:
// started work of the communicator (which moves on inside its calls only), and a queue's.
#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

#include "weft/queue.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kElements = std::size_t{16} << 20;  // float: 64 MiB

void compute(std::chrono::milliseconds time) {
  for (const auto until = Clock::now() + time; Clock::now() < until;) {
    double x = 1;
    for (int i = 0; i < 1000; ++i) benchmark::DoNotOptimize(x = x * 1.0000001 + 1e-9);
  }
}

// Both ranks do as `rank` says; the time is what rank 0 waits after computing. Only rank 0 computes with
// state.range(0).
template <class Rank0>
void run(benchmark::State& state, const Rank0& rank) {
  const ConnectOptions options{.transport = "tcp", .timeout = std::chrono::seconds(60)};
  const auto place = MeetingPlace::open(2, options).value();
  auto other = Communicator::start_connect(place.id(), 1, 2, options);
  auto own = Communicator::connect(place.id(), 0, 2, options);
  auto theirs = other.take();
  if (!own || !theirs) return state.SkipWithError("the ranks do not meet");
  std::vector<float> data[2] = {std::vector<float>(kElements, 1), std::vector<float>(kElements, 1)};
  Queue peer(std::move(*theirs));
  rank(std::move(*own), peer, data);
}

Request sum_of(std::vector<float>& data) { return {.in = data.data(), .out = data.data(), .count = data.size()}; }

void started(benchmark::State& state) {
  run(state, [&](Communicator c, Queue& peer, std::vector<float>* data) {
    for (auto _ : state) {
      const auto theirs = peer.start(sum_of(data[1]));
      auto work = c.start(sum_of(data[0]));
      compute(std::chrono::milliseconds(200));
      const auto begin = Clock::now();
      if (!work || !work->wait() || !theirs.wait()) return state.SkipWithError("failed");
      state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  });
}

void queued(benchmark::State& state) {
  run(state, [&](Communicator c, Queue& peer, std::vector<float>* data) {
    Queue queue(std::move(c));
    for (auto _ : state) {
      const auto theirs = peer.start(sum_of(data[1]));
      const auto ours = queue.start(sum_of(data[0]));
      compute(std::chrono::milliseconds(200));
      const auto begin = Clock::now();
      if (!ours.wait() || !theirs.wait()) return state.SkipWithError("failed");
      state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  });
}

BENCHMARK(started)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);
BENCHMARK(queued)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace weft
