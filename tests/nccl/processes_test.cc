// NCCL's interface between processes: kernels of one reach the regions of all, by the text of the kernels on the host's
// threads. Every rank is a process whose host is another GPU.

#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "base/result.h"
#include "tests/processes.h"

extern "C" ncclResult_t weft_stream_synchronize(cudaStream_t stream);

namespace weft {
namespace {

cudaStream_t stream_of(int rank) { return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(rank + 1)); }

#define TRY_NCCL(call) \
  if ((call) != ncclSuccess) return fmt::format("{}: {}", #call, ncclGetLastError(nullptr))

using RankContext = std::function<std::string(ncclComm_t, int rank)>;

// What every rank's process says; `gpus`: which GPU each believes to have.
std::vector<tests::Process> start(
    const std::vector<int>& gpus, const RankContext& context,
    const std::function<std::string(int rank)>& path = [](int) { return ""; }) {
  // An id can be made without a device, but is made in a process that has one: this one never opens any.
  ncclUniqueId id{};
  const std::string name = "weft-nccl-" + tests::fresh_id("processes");
  name.copy(id.internal, sizeof id.internal - 1);
  std::vector<tests::Process> processes;
  for (std::size_t r = 0; r < gpus.size(); ++r)
    processes.emplace_back([=](tests::Report& report) {
      setenv("WEFT_DEVICE", fmt::format("host:{}", gpus[r]).c_str(), 1);
      setenv("WEFT_DEVICE_PATH", path(static_cast<int>(r)).c_str(), 1);
      report.say([&]() -> std::string {
        ncclComm_t comm = nullptr;
        TRY_NCCL(ncclCommInitRank(&comm, static_cast<int>(gpus.size()), id, static_cast<int>(r)));
        return context(comm, static_cast<int>(r));
      }());
    });
  return processes;
}

std::string sums_gathers_and_messages(ncclComm_t comm, int rank) {
  constexpr std::size_t kCount = 30000;
  int ranks = 0;
  TRY_NCCL(ncclCommCount(comm, &ranks));
  const auto n = static_cast<std::size_t>(ranks);
  const cudaStream_t stream = stream_of(rank);
  std::vector<int> in(kCount * n), sum(kCount), swapped(kCount * n), gathered(kCount * n);
  std::iota(in.begin(), in.end(), rank * 1000);
  TRY_NCCL(ncclAllReduce(in.data(), sum.data(), kCount, ncclInt, ncclSum, comm, stream));
  TRY_NCCL(ncclAllGather(in.data(), gathered.data(), kCount, ncclInt, comm, stream));
  TRY_NCCL(ncclGroupStart());
  for (int peer = 0; peer < ranks; ++peer) {
    const auto at = static_cast<std::size_t>(peer) * kCount;
    TRY_NCCL(ncclSend(&in[at], kCount, ncclInt, peer, comm, stream));
    TRY_NCCL(ncclRecv(&swapped[at], kCount, ncclInt, peer, comm, stream));
  }
  TRY_NCCL(ncclGroupEnd());
  TRY_NCCL(weft_stream_synchronize(stream));
  const int others = ranks * (ranks - 1) / 2 * 1000;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (sum[i] != static_cast<int>(i) * ranks + others) return fmt::format("sum {} is {}", i, sum[i]);
    for (std::size_t r = 0; r < n; ++r) {
      const int from = static_cast<int>(r) * 1000;
      if (gathered[r * kCount + i] != from + static_cast<int>(i)) return "gathered is wrong";
      if (swapped[r * kCount + i] != from + static_cast<int>(static_cast<std::size_t>(rank) * kCount + i))
        return "swapped is wrong";
    }
  }
  ncclResult_t error = ncclSuccess;
  TRY_NCCL(ncclCommGetAsyncError(comm, &error));
  TRY_NCCL(error);
  TRY_NCCL(ncclCommDestroy(comm));
  return "well";
}

// The second buffer is the first one's window, from its middle on.
std::string sums_in_windows(ncclComm_t comm, int rank) {
  constexpr std::size_t kCount = 1 << 16;
  const cudaStream_t stream = stream_of(rank);
  int ranks = 0;
  TRY_NCCL(ncclCommCount(comm, &ranks));
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
  TRY_NCCL(ncclMemAlloc(&memory, 2 * kCount * sizeof(int)));
  TRY_NCCL(ncclCommWindowRegister(comm, memory, 2 * kCount * sizeof(int), &window, 1));
  int* const in = static_cast<int*>(memory);
  int* const out = in + kCount;
  for (int call = 0; call < 3; ++call) {
    for (std::size_t i = 0; i < kCount; ++i) in[i] = static_cast<int>(i) + rank;
    TRY_NCCL(ncclAllReduce(in, out, kCount, ncclInt, ncclSum, comm, stream));
    TRY_NCCL(ncclAllReduce(out, out, kCount, ncclInt, ncclMax, comm, stream));
    TRY_NCCL(weft_stream_synchronize(stream));
    for (std::size_t i = 0; i < kCount; ++i)
      if (out[i] != static_cast<int>(i) * ranks + ranks * (ranks - 1) / 2)
        return fmt::format("sum {} is {}", i, out[i]);
  }
  TRY_NCCL(ncclCommWindowDeregister(comm, window));
  TRY_NCCL(ncclAllReduce(in, out, kCount, ncclInt, ncclSum, comm, stream));
  TRY_NCCL(weft_stream_synchronize(stream));
  TRY_NCCL(ncclCommDestroy(comm));
  TRY_NCCL(ncclMemFree(memory));
  return "well";
}

// Calls of few elements and of many: other protocols carry them.
std::string rooted(ncclComm_t comm, int rank) {
  constexpr int kRoot = 1;
  int ranks = 0;
  TRY_NCCL(ncclCommCount(comm, &ranks));
  const auto n = static_cast<std::size_t>(ranks);
  const cudaStream_t stream = stream_of(rank);
  for (const std::size_t count : {std::size_t{5}, std::size_t{3000}, std::size_t{50000}}) {
    std::vector<int> in(count * n), gathered(count * n, -1), part(count, -1), sum(count, -1), from_root(count, -1);
    std::iota(in.begin(), in.end(), rank * 1000);
    TRY_NCCL(ncclGather(in.data(), gathered.data(), count, ncclInt, kRoot, comm, stream));
    TRY_NCCL(ncclScatter(in.data(), part.data(), count, ncclInt, kRoot, comm, stream));
    TRY_NCCL(ncclReduce(in.data(), sum.data(), count, ncclInt, ncclSum, kRoot, comm, stream));
    TRY_NCCL(ncclBroadcast(in.data(), from_root.data(), count, ncclInt, kRoot, comm, stream));
    TRY_NCCL(weft_stream_synchronize(stream));
    for (std::size_t i = 0; i < count; ++i) {
      const int value = static_cast<int>(i);
      if (part[i] != kRoot * 1000 + rank * static_cast<int>(count) + value)
        return fmt::format("part {}: {}", i, part[i]);
      if (from_root[i] != kRoot * 1000 + value) return fmt::format("from the root {}: {}", i, from_root[i]);
      if (rank != kRoot) continue;
      if (sum[i] != value * ranks + ranks * (ranks - 1) / 2 * 1000) return fmt::format("sum {}: {}", i, sum[i]);
      for (int r = 0; r < ranks; ++r)
        if (const int got = gathered[static_cast<std::size_t>(r) * count + i]; got != r * 1000 + value)
          return fmt::format("gathered of rank {}, {}: {}", r, i, got);
    }
  }
  TRY_NCCL(ncclCommDestroy(comm));
  return "well";
}

#if NCCL_VERSION_CODE >= 23200
// Puts to all, of one element and of more than a message takes at once; nobody puts again before all have looked.
std::string puts_with_signals(ncclComm_t comm, int rank) {
  int ranks = 0;
  TRY_NCCL(ncclCommCount(comm, &ranks));
  const auto n = static_cast<std::size_t>(ranks), self = static_cast<std::size_t>(rank);
  const cudaStream_t stream = stream_of(rank);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1} << 19}) {
    void* memory = nullptr;
    ncclWindow_t window = nullptr;
    TRY_NCCL(ncclMemAlloc(&memory, n * count * sizeof(int)));
    TRY_NCCL(ncclCommWindowRegister(comm, memory, n * count * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
    for (int round = 1; round <= 3; ++round) {
      std::vector<int> in(count, 10 * rank + round), ready(1, 1);
      std::vector<ncclWaitSignalDesc_t> signals;
      for (int peer = 0; peer < ranks; ++peer) {
        TRY_NCCL(
            ncclPutSignal(in.data(), count, ncclInt, peer, window, self * count * sizeof(int), 0, 0, 0, comm, stream));
        signals.push_back({1, peer, 0, 0});
      }
      TRY_NCCL(ncclWaitSignal(ranks, signals.data(), comm, stream));
      TRY_NCCL(weft_stream_synchronize(stream));
      for (std::size_t i = 0; i < n * count; ++i)
        if (const int got = static_cast<int*>(memory)[i]; got != 10 * static_cast<int>(i / count) + round)
          return fmt::format("round {}: element {} is {}", round, i, got);
      TRY_NCCL(ncclAllReduce(ready.data(), ready.data(), 1, ncclInt, ncclSum, comm, stream));
      TRY_NCCL(weft_stream_synchronize(stream));
    }
    TRY_NCCL(ncclCommWindowDeregister(comm, window));
  }
  ncclResult_t error = ncclSuccess;
  TRY_NCCL(ncclCommGetAsyncError(comm, &error));
  TRY_NCCL(error);
  TRY_NCCL(ncclCommDestroy(comm));
  return "well";
}
#endif

class NcclProcesses : public testing::TestWithParam<std::vector<int>> {};

// Ranks on GPUs of their own, and, through host memory, on shared ones.
TEST_P(NcclProcesses, SumGatherAndSendToEachOther) {
  for (tests::Process& p : start(GetParam(), sums_gathers_and_messages)) {
    const tests::Outcome outcome = p.join();
    EXPECT_EQ(outcome.said, "well") << outcome.how();
  }
}

TEST(NcclProcesses, GatherScatterReduceAndBroadcast) {
  for (tests::Process& p : start({0, 1, 2, 3}, rooted)) {
    const tests::Outcome outcome = p.join();
    EXPECT_EQ(outcome.said, "well") << outcome.how();
  }
}

TEST_P(NcclProcesses, SumInWindows) {
  for (tests::Process& p : start(GetParam(), sums_in_windows)) {
    const tests::Outcome outcome = p.join();
    EXPECT_EQ(outcome.said, "well") << outcome.how();
  }
}

#if NCCL_VERSION_CODE >= 23200
// Into windows that kernels have opened, and by messages.
TEST_P(NcclProcesses, PutIntoEachOthersWindows) {
  for (tests::Process& p : start(GetParam(), puts_with_signals)) {
    const tests::Outcome outcome = p.join();
    EXPECT_EQ(outcome.said, "well") << outcome.how();
  }
}
#endif

// Rank 1 alone asks for host memory, and both take it; where both ask for kernels, they have them on a GPU that they
// share.
TEST(NcclProcesses, GoOneWayWhateverEachHasSet) {
  for (const bool alone : {true, false}) {
    for (tests::Process& p : start(alone ? std::vector<int>{0, 1} : std::vector<int>{0, 0}, sums_gathers_and_messages,
                                   [alone](int rank) { return !alone      ? "kernels"
                                                              : rank == 1 ? "host"
                                                                          : ""; })) {
      const tests::Outcome outcome = p.join();
      EXPECT_EQ(outcome.said, "well") << outcome.how();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OnGpus, NcclProcesses,
                         testing::Values(std::vector<int>{0, 1}, std::vector<int>{3, 2, 1}, std::vector<int>{0, 0, 1}));

// Its memory is still mapped here: nothing but the process itself says that it has died.
TEST(NcclProcesses, OneThatDiesIsNamedByTheOthers) {
  auto processes = start({0, 1}, [](ncclComm_t comm, int rank) -> std::string {
    int x = 1;
    if (rank == 1) {
      kill(getpid(), SIGKILL);
    }
    TRY_NCCL(ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comm, stream_of(rank)));
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) {
      TRY_NCCL(ncclCommGetAsyncError(comm, &error));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const std::string said = ncclGetLastError(comm);
    TRY_NCCL(ncclCommAbort(comm));
    return fmt::format("{} {}", static_cast<int>(error), said);
  });
  const tests::Outcome outcome = processes[0].join();
  EXPECT_EQ(outcome.said.substr(0, 1), std::to_string(ncclRemoteError)) << outcome.said << outcome.how();
  EXPECT_NE(outcome.said.find("rank 1"), std::string::npos) << outcome.said;
  EXPECT_FALSE(processes[1].join().ended_well());
}

}  // namespace
}  // namespace weft
