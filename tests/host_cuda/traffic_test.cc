// How much kernels move, against what any kernel must: bench/gpu/README.md has the bound. On a GPU whose memory is the
// limit, the share of the bound that a collective reaches is at most this ratio's inverse.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "plan/schedule/collective.h"
#include "tests/host_cuda/host_cuda.h"
#include "weft/cuda.h"

namespace weft::cuda {
namespace {

struct Case {
  Collective collective;
  int ranks;
};
void PrintTo(const Case& c, std::ostream* out) { *out << schedule::name(c.collective) << " on " << c.ranks; }

class Traffic : public ::testing::TestWithParam<Case> {};

TEST_P(Traffic, IsWhatMustBeReadAndWritten) {
  const auto [collective, n] = GetParam();
  constexpr std::size_t kMessage = std::size_t{8} << 20;  // bytes: S of the bound
  const bool parts_in = collective == Collective::kAllGather, parts_out = collective == Collective::kReduceScatter;
  const auto ranks = static_cast<std::size_t>(n);
  const std::size_t in = parts_in ? kMessage / ranks : kMessage, out = parts_out ? kMessage / ranks : kMessage;
  const std::vector<int> devices(ranks, 0);
  const auto opened = Communicator::open(devices);
  ASSERT_TRUE(opened) << opened.error().message;
  std::vector<Call> calls;
  std::vector<void*> memory;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (const std::size_t bytes : {in, out}) {
      ASSERT_EQ(cudaMalloc(&memory.emplace_back(), bytes), cudaSuccess);
      ASSERT_EQ(cudaMemset(memory.back(), 0, bytes), cudaSuccess);
    }
    // A request counts elements of a part, but of an all_reduce those of all.
    const std::size_t count = kMessage / sizeof(float) / (collective == Collective::kAllReduce ? 1 : ranks);
    Request request{.collective = collective, .count = count, .type = DataType::kFloat32};
    request.in = memory[2 * r], request.out = memory[2 * r + 1];
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    calls.push_back({.communicator = (*opened)[r], .request = request, .stream = stream});
  }
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::uint64_t before[2] = {}, after[2] = {};
  host_cuda_traffic(&before[0], &before[1]);
  const Status started = start(calls);
  ASSERT_TRUE(started) << started.error().message;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  host_cuda_traffic(&after[0], &after[1]);
  for (const Communicator& rank : *opened) EXPECT_TRUE(rank.status());

  const double moved = static_cast<double>(after[0] - before[0] + after[1] - before[1]);
  const double bound = static_cast<double>(ranks * (in + out));
  fmt::print("{} on {} ranks by {}: {:.3f} of the bound\n", schedule::name(collective), n,
             calls[0].communicator.last_choice().algorithm, moved / bound);
  EXPECT_GE(moved, bound);
  // Of an all_gather every rank loads every input itself, where the bound has it loaded once: caches may hold it.
  const double loads_and_stores = static_cast<double>(2 * ranks * kMessage);
  EXPECT_LE(moved, 1.1 * (parts_in ? loads_and_stores : bound));
  for (const Call& call : calls) cudaStreamDestroy(static_cast<cudaStream_t>(call.stream));
  calls.clear();
  for (void* m : memory) cudaFree(m);
}

INSTANTIATE_TEST_SUITE_P(Of, Traffic, ::testing::ValuesIn([] {
                           std::vector<Case> all;
                           for (const Collective c : {Collective::kAllReduce, Collective::kAllGather,
                                                      Collective::kReduceScatter, Collective::kAllToAll})
                             for (const int ranks : {2, 4, 8}) all.push_back({c, ranks});
                           return all;
                         }()));

}  // namespace
}  // namespace weft::cuda
