// The cost of the flight recorder, and of the possibility to trace, for calls of two ranks. Variants:
//   bare      no flight recorder, and an executor from which the trace's branches are left out when it is compiled
//   recorded  the flight recorder, as usual
//   shipped   and the branches, with no trace wanted: what programs get
//
//   weft_recording [--rounds N]                  two processes; µs per call, the variants in turn
//   weft_recording --broadcasts N VARIANT BYTES  one thread, N broadcasts by the root and then by the other rank, so
//                                                that nobody ever waits: for counting instructions (count)
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "api/chooser.h"
#include "api/this_machine.h"
#include "base/result.h"
#include "net/shm/shm.h"
#include "net/threads/threads.h"

namespace weft::recording {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<const char*, 3> kVariants{"bare", "recorded", "shipped"};
enum Variant : std::size_t { kBare, kRecorded, kShipped };

// exec::Observer, as it would be if there were no traces.
struct Unwatched : exec::NoTrace {
  void trace_to(recorder::Trace*) {}
  bool wants() const { return false; }
  template <class Peer>
  void stuck(Peer&&) {}
  void moved() {}
};

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "weft_recording: %s\n", result.error().message.c_str());
  std::exit(1);
}
void must(const Status& status) {
  if (!status) must<int>(tl::make_unexpected(status.error()));
}

template <class World>
std::unique_ptr<session::Session> session_over(std::unique_ptr<World> world, Variant variant) {
  static const auto machine = must(api::this_machine(calibrate::typical()));
  static recorder::RecordPool records(4096);
  std::unique_ptr<exec::Executor> executor;
  if (variant == kShipped)
    executor = std::make_unique<exec::WorldExecutor<World>>(std::move(world));
  else
    executor = std::make_unique<exec::WorldExecutor<World, Unwatched>>(std::move(world));
  const Rank rank = executor->rank(), ranks = executor->ranks();
  auto session = std::make_unique<session::Session>(std::move(executor), ranks, api::chooser_of(machine, {}));
  if (variant != kBare)
    session->record(
        recorder::Recorder::open(
            {.job = "bench", .group = kVariants[variant], .transport = "shm", .rank = rank, .ranks = ranks}, records),
        "");
  return session;
}

double run_of(session::Session& session, const Request& request, int calls) {
  must(session.operations().run({.collective = Collective::kBarrier}));
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) must(session.operations().run(request));
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void time_as(Rank rank, const std::string& job, int rounds) {
  constexpr int kCalls = 20000;
  std::vector<std::unique_ptr<session::Session>> sessions;
  for (std::size_t v = 0; v < kVariants.size(); ++v)
    sessions.push_back(
        session_over(must(net::shm::attach({.id = job + kVariants[v], .rank = rank, .ranks = 2})), Variant(v)));
  for (const std::size_t bytes : {8, 1024}) {
    std::array<std::vector<double>, kVariants.size()> times;
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < kVariants.size(); ++i) {
        const std::size_t v = (i + static_cast<std::size_t>(round)) % kVariants.size();
        auto* const data = static_cast<float*>(must(sessions[v]->executor().allocate(static_cast<Bytes>(2 * bytes))));
        std::memset(data, 0, 2 * bytes);
        const Request request{.in = data, .out = data + bytes / sizeof(float), .count = bytes / sizeof(float)};
        times[v].push_back(run_of(*sessions[v], request, kCalls));
        sessions[v]->executor().deallocate(data);
      }
    if (rank != 0) continue;
    for (std::size_t v = 0; v < kVariants.size(); ++v) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < times[v].size(); ++r) ratios.push_back(times[v][r] / times[v == 0 ? 0 : v - 1][r]);
      std::printf("all_reduce of %4zu B, %-8s %.4f us", bytes, kVariants[v], median(times[v]));
      if (v > 0) std::printf(", %+.1f %% to %s", 100 * (median(ratios) - 1), kVariants[v - 1]);
      std::printf("\n");
    }
  }
}

// Callgrind collects inside of this function.
[[gnu::noinline]] void broadcasts(session::Session& root, session::Session& other, const Request& request, int calls) {
  for (int i = 0; i < calls; ++i) {
    must(root.operations().run(request));
    must(other.operations().run(request));
  }
}

void count(Variant variant, int calls, std::size_t bytes) {
  auto worlds = must(net::threads::open(2, {}));
  const auto root = session_over(std::move(worlds[0]), variant), other = session_over(std::move(worlds[1]), variant);
  std::vector<float> data(bytes / sizeof(float));
  const Request request{.collective = Collective::kBroadcast,
                        .in = data.data(),
                        .out = data.data(),
                        .count = data.size(),
                        .protocol = "LL64"};
  must(root->operations().run(request));  // plans
  must(other->operations().run(request));
  broadcasts(*root, *other, request, calls);
}

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 4 && arguments[0] == "--broadcasts") {
    const auto known = std::find(kVariants.begin(), kVariants.end(), arguments[2]);
    if (known == kVariants.end()) return 2;
    count(Variant(known - kVariants.begin()), std::atoi(arguments[1].c_str()), std::stoul(arguments[3]));
    return 0;
  }
  const bool says_rounds = arguments.size() == 2 && arguments[0] == "--rounds";
  if (!arguments.empty() && !says_rounds) {
    std::fprintf(stderr, "weft_recording: --rounds N, or --broadcasts N VARIANT BYTES\n");
    return 2;
  }
  const std::string job = "recording-" + std::to_string(getpid()) + "-";
  const pid_t other = fork();
  time_as(other == 0 ? 1 : 0, job, says_rounds ? std::max(1, std::atoi(arguments[1].c_str())) : 61);
  int status = 0;
  return other == 0 || (waitpid(other, &status, 0) == other && status == 0) ? 0 : 1;
}

}  // namespace
}  // namespace weft::recording

int main(int argc, char** argv) { return weft::recording::main(argc, argv); }
