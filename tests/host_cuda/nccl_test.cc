// NCCL's interface with device memory, streams and graphs: by kernels, and (WEFT_DEVICE_PATH=host) through host memory.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace {

#define CUDA_OK(call) ASSERT_EQ((call), cudaSuccess)
#define NCCL_OK(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

constexpr int kRanks = 3;
constexpr std::size_t kCount = 3000;

bool through_host() {
  const char* const path = std::getenv("WEFT_DEVICE_PATH");
  return path != nullptr && std::string(path) == "host";
}

class NcclOnDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    const int devices[kRanks] = {0, 0, 0};
    NCCL_OK(ncclCommInitAll(comms, kRanks, devices));
    for (int r = 0; r < kRanks; ++r) {
      CUDA_OK(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
      CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&in[r]), kRanks * kCount * sizeof(float)));
      CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&out[r]), kRanks * kCount * sizeof(float)));
      std::vector<float> values(kRanks * kCount);
      std::iota(values.begin(), values.end(), 100.0f * static_cast<float>(r));
      CUDA_OK(cudaMemcpy(in[r], values.data(), values.size() * sizeof(float), cudaMemcpyDefault));
    }
  }
  void TearDown() override {
    for (int r = 0; r < kRanks; ++r) {
      ncclCommDestroy(comms[r]);
      cudaFree(in[r]);
      cudaFree(out[r]);
      cudaStreamDestroy(streams[r]);
    }
  }
  // call(rank) for all ranks in one group.
  template <class Call>
  void group(Call&& call) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) NCCL_OK(call(r));
    NCCL_OK(ncclGroupEnd());
  }
  std::vector<float> result(int rank, std::size_t count = kCount) {
    std::vector<float> values(count);
    EXPECT_EQ(cudaStreamSynchronize(streams[rank]), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), out[rank], count * sizeof(float), cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(cudaMemset(out[rank], 0x7f, kRanks * kCount * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return values;
  }
  static float at(int rank, std::size_t i) { return 100.0f * static_cast<float>(rank) + static_cast<float>(i); }

  ncclComm_t comms[kRanks] = {};
  cudaStream_t streams[kRanks] = {};
  float *in[kRanks] = {}, *out[kRanks] = {};
};

TEST_F(NcclOnDevices, CollectivesGiveWhatTheyPromise) {
  group([&](int r) { return ncclAllReduce(in[r], out[r], kCount, ncclFloat, ncclSum, comms[r], streams[r]); });
  for (int r = 0; r < kRanks; ++r)
    for (std::size_t i = 0; const float value : result(r)) ASSERT_EQ(value, 3 * at(1, i++)) << r;
  group([&](int r) { return ncclReduceScatter(in[r], out[r], kCount, ncclFloat, ncclMax, comms[r], streams[r]); });
  for (int r = 0; r < kRanks; ++r)
    for (std::size_t i = static_cast<std::size_t>(r) * kCount; const float value : result(r))
      ASSERT_EQ(value, at(2, i++)) << r;
  group([&](int r) { return ncclAllGather(in[r], out[r], kCount, ncclFloat, comms[r], streams[r]); });
  for (int r = 0; r < kRanks; ++r)
    for (std::size_t i = 0; const float value : result(r, kRanks * kCount)) {
      ASSERT_EQ(value, at(static_cast<int>(i / kCount), i % kCount)) << r;
      ++i;
    }
  group([&](int r) { return ncclBroadcast(in[r], out[r], kCount, ncclFloat, 1, comms[r], streams[r]); });
  for (int r = 0; r < kRanks; ++r)
    for (std::size_t i = 0; const float value : result(r)) ASSERT_EQ(value, at(1, i++)) << r;
}

TEST_F(NcclOnDevices, SendsAndReceivesOfAGroup) {
  group([&](int r) {
    const int next = (r + 1) % kRanks, before = (r + kRanks - 1) % kRanks;
    if (const auto sent = ncclSend(in[r], kCount, ncclFloat, next, comms[r], streams[r]); sent != ncclSuccess)
      return sent;
    return ncclRecv(out[r], kCount, ncclFloat, before, comms[r], streams[r]);
  });
  for (int r = 0; r < kRanks; ++r)
    for (std::size_t i = 0; const float value : result(r)) ASSERT_EQ(value, at((r + kRanks - 1) % kRanks, i++)) << r;
}

TEST_F(NcclOnDevices, AScalarInDeviceMemoryIsReadWhenTheOperationRuns) {
  float* scalar = nullptr;
  CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&scalar), sizeof(float)));
  ncclRedOp_t scaled[kRanks];
  for (int r = 0; r < kRanks; ++r)
    NCCL_OK(ncclRedOpCreatePreMulSum(&scaled[r], scalar, ncclFloat, ncclScalarDevice, comms[r]));
  const float value = 2;
  CUDA_OK(cudaMemcpy(scalar, &value, sizeof value, cudaMemcpyDefault));
  group([&](int r) { return ncclAllReduce(in[r], out[r], kCount, ncclFloat, scaled[r], comms[r], streams[r]); });
  for (int r = 0; r < kRanks; ++r)
    for (std::size_t i = 0; const float got : result(r)) ASSERT_EQ(got, 6 * at(1, i++)) << r;
  for (int r = 0; r < kRanks; ++r) NCCL_OK(ncclRedOpDestroy(scaled[r], comms[r]));
  CUDA_OK(cudaFree(scalar));
}

TEST_F(NcclOnDevices, GraphsReplayCollectives) {
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreate(&event));
  CUDA_OK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
  CUDA_OK(cudaEventRecord(event, streams[0]));
  for (int r = 1; r < kRanks; ++r) CUDA_OK(cudaStreamWaitEvent(streams[r], event, 0));
  ncclResult_t captured = ncclGroupStart();
  for (int r = 0; r < kRanks; ++r)
    if (captured == ncclSuccess)
      captured = ncclAllReduce(in[r], out[r], kCount, ncclFloat, ncclSum, comms[r], streams[r]);
  captured = std::max(captured, ncclGroupEnd());
  for (int r = 1; r < kRanks; ++r) {
    CUDA_OK(cudaEventRecord(event, streams[r]));
    CUDA_OK(cudaStreamWaitEvent(streams[0], event, 0));
  }
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(streams[0], &graph));
  if (through_host()) {
    EXPECT_EQ(captured, ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("captured"), std::string::npos);
  } else {
    EXPECT_EQ(captured, ncclSuccess) << ncclGetLastError(nullptr);
    cudaGraphExec_t ready = nullptr;
    CUDA_OK(cudaGraphInstantiate(&ready, graph, 0));
    for (int times = 0; times < 3; ++times) {
      CUDA_OK(cudaGraphLaunch(ready, streams[0]));
      CUDA_OK(cudaStreamSynchronize(streams[0]));
      for (int r = 0; r < kRanks; ++r)
        for (std::size_t i = 0; const float value : result(r)) ASSERT_EQ(value, 3 * at(1, i++)) << r;
    }
    CUDA_OK(cudaGraphExecDestroy(ready));
  }
  CUDA_OK(cudaGraphDestroy(graph));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(NcclOnDevices, MemoryOfTheHostIsRefused) {
  std::vector<float> own(kCount);
  EXPECT_EQ(ncclAllReduce(own.data(), out[0], kCount, ncclFloat, ncclSum, comms[0], streams[0]), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("host pointer where a device pointer is needed"),
            std::string::npos)
      << ncclGetLastError(nullptr);
}

TEST_F(NcclOnDevices, AbortEndsARankThatWaits) {
  NCCL_OK(ncclAllReduce(in[0], out[0], kCount, ncclFloat, ncclSum, comms[0], streams[0]));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
    comms[0] = nullptr;
  });
  CUDA_OK(cudaStreamSynchronize(streams[0]));
  later.join();
}

}  // namespace
