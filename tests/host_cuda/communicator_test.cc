// weft/cuda.h over kernels that are interpreted: what goes wrong is said, and nothing hangs.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "weft/cuda.h"

namespace weft::cuda {
namespace {

using namespace std::chrono_literals;

class Gpu : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 1000;

  explicit Gpu(std::chrono::milliseconds longest = 60s) : timeout(longest) {}
  void SetUp() override {
    const std::vector<int> devices(kRanks, 0);
    auto opened = Communicator::open(devices, {.timeout = timeout});
    ASSERT_TRUE(opened) << opened.error().message;
    ranks = *opened;
    std::vector<std::int32_t> values(kCount);
    for (int r = 0; r < kRanks; ++r) {
      ASSERT_EQ(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking), cudaSuccess);
      ASSERT_EQ(cudaMalloc(&memory[r], 2 * kBytes), cudaSuccess);
      std::iota(values.begin(), values.end(), 10 * r);
      ASSERT_EQ(cudaMemcpy(memory[r], values.data(), kBytes, cudaMemcpyDefault), cudaSuccess);
    }
  }
  void TearDown() override {
    ranks.clear();
    for (int r = 0; r < kRanks; ++r) {
      cudaStreamDestroy(streams[r]);
      cudaFree(memory[r]);
    }
  }
  Request sum(int rank) const {
    Request request{.collective = Collective::kAllReduce, .count = kCount, .type = DataType::kInt32};
    request.in = memory[rank];
    request.out = static_cast<std::byte*>(memory[rank]) + kBytes;
    return request;
  }
  void start_all() {
    for (int r = 0; r < kRanks; ++r) {
      const auto started = ranks[static_cast<std::size_t>(r)].start(sum(r), streams[r]);
      ASSERT_TRUE(started) << started.error().message;
    }
  }
  void expect_sums() {
    std::vector<std::int32_t> values(kCount);
    for (int r = 0; r < kRanks; ++r) {
      ASSERT_EQ(cudaStreamSynchronize(streams[r]), cudaSuccess);
      ASSERT_EQ(cudaMemcpy(values.data(), sum(r).out, kBytes, cudaMemcpyDefault), cudaSuccess);
      for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], 3 * static_cast<int>(i) + 30) << r << " " << i;
      EXPECT_TRUE(ranks[static_cast<std::size_t>(r)].status());
    }
  }

  const std::chrono::milliseconds timeout;  // of one wait
  static constexpr int kRanks = 3;
  static constexpr std::size_t kBytes = kCount * 4;
  std::vector<Communicator> ranks;
  cudaStream_t streams[kRanks] = {};
  void* memory[kRanks] = {};
};

TEST_F(Gpu, RanksOfOneDeviceSumUp) {
  for (int times = 0; times < 3; ++times) {
    start_all();
    expect_sums();
  }
}

class ImpatientGpu : public Gpu {
 protected:
  ImpatientGpu() : Gpu(300ms) {}
};
TEST_F(ImpatientGpu, NamesARankThatDoesNotCome) {
  for (int r = 0; r < 2; ++r)
    ASSERT_TRUE(ranks[static_cast<std::size_t>(r)].start(sum(r), streams[r]));  // rank 2 does not
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Status first_status = ranks[0].status(), other = ranks[1].status();
  ASSERT_FALSE(first_status && other);
  const Status& first = !first_status && first_status.error().code == Code::kTimeout ? first_status : other;
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kTimeout) << first.error().message;
  EXPECT_NE(first.error().message.find("rank 2"), std::string::npos) << first.error().message;
  // Later ones end at once.
  ASSERT_TRUE(ranks[0].start(sum(0), streams[0]));
  ASSERT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
  EXPECT_FALSE(ranks[0].status());
}

TEST_F(Gpu, AbortEndsWhatWaits) {
  ASSERT_TRUE(ranks[0].start(sum(0), streams[0]));
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(ranks[1].abort());
  });
  ASSERT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
  later.join();
  ASSERT_FALSE(ranks[0].status());
  EXPECT_EQ(ranks[0].status().error().code, Code::kAborted);
}

TEST_F(Gpu, MemoryOfTheHostIsRefused) {
  std::vector<std::int32_t> own(kCount);
  Request request = sum(0);
  request.in = own.data();
  const Status started = ranks[0].start(request, streams[0]);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kInvalidArgument);
  EXPECT_NE(started.error().message.find("host pointer where a device pointer is needed"), std::string::npos)
      << started.error().message;
  start_all();  // nothing was queued
  expect_sums();
}

TEST_F(Gpu, TooLittleMemoryIsSaid) {
  const auto windows = Window::allocate(ranks, std::size_t{1} << 40);
  ASSERT_FALSE(windows);
  EXPECT_EQ(windows.error().code, Code::kNoResources);
  EXPECT_NE(windows.error().message.find("out of memory"), std::string::npos) << windows.error().message;
}

TEST(GpuDevices, ThatAreNotThereAreRefused) {
  const std::vector<int> devices{0, 5};
  const auto opened = Communicator::open(devices);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
  EXPECT_NE(opened.error().message.find("device 5 of 1"), std::string::npos) << opened.error().message;
}

TEST(GpuRanks, MoreThanFitAreRefused) {
  const std::vector<int> devices(2000, 0);
  const auto opened = Communicator::open(devices);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kUnsupported) << opened.error().message;
}

// The last one: a device that has failed has failed for good.
using FailingGpu = Gpu;
TEST_F(FailingGpu, IsSaidByAllAndNothingHangs) {
  void* small = nullptr;
  ASSERT_EQ(cudaMalloc(&small, 64), cudaSuccess);
  Request broken = sum(1);
  broken.in = small;  // the kernel reads beyond
  ASSERT_TRUE(ranks[0].start(sum(0), streams[0]));
  (void)ranks[1].start(broken, streams[1]);  // it may fail before this returns
  (void)ranks[2].start(sum(2), streams[2]);
  EXPECT_EQ(cudaStreamSynchronize(streams[0]), cudaErrorLaunchFailure);
  for (const Communicator& rank : ranks) {
    const Status status = rank.status();
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find("launch failure"), std::string::npos) << status.error().message;
  }
  const Status next = ranks[0].start(sum(0), streams[0]);
  EXPECT_FALSE(next);
}

}  // namespace
}  // namespace weft::cuda
