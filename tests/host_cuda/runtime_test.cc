// The runtime itself: streams, events, graphs, memory, as CUDA's documentation says of them.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

#define CUDA_OK(call) ASSERT_EQ((call), cudaSuccess)

// The first one, as the child must not come from a process that has used the device; it sees the parent's memory by its
// handle.
TEST(RuntimeOfProcesses, MemoryIsShared) {
  int there[2], back[2];
  ASSERT_EQ(pipe(there), 0);
  ASSERT_EQ(pipe(back), 0);
  const pid_t child = fork();
  if (child == 0) {
    cudaIpcMemHandle_t handle{};
    void* at = nullptr;
    bool fine = read(there[0], &handle, sizeof handle) == sizeof handle &&
                cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
    std::uint64_t value = 0;
    fine = fine && cudaMemcpy(&value, at, 8, cudaMemcpyDefault) == cudaSuccess && value == 41;
    ++value;
    fine =
        fine && cudaMemcpy(at, &value, 8, cudaMemcpyDefault) == cudaSuccess && cudaIpcCloseMemHandle(at) == cudaSuccess;
    _exit(fine && write(back[1], "x", 1) == 1 ? 0 : 1);
  }
  void* at = nullptr;
  CUDA_OK(cudaMalloc(&at, 8));
  std::uint64_t value = 41;
  CUDA_OK(cudaMemcpy(at, &value, 8, cudaMemcpyDefault));
  cudaIpcMemHandle_t handle{};
  CUDA_OK(cudaIpcGetMemHandle(&handle, at));
  void* own = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&own, handle, 0), cudaErrorDeviceUninitialized);
  ASSERT_EQ(write(there[1], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  char answer = 0;
  close(back[1]);
  EXPECT_EQ(read(back[0], &answer, 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  CUDA_OK(cudaMemcpy(&value, at, 8, cudaMemcpyDefault));
  EXPECT_EQ(value, 42u);
  CUDA_OK(cudaFree(at));
  for (const int end : {there[0], there[1], back[0]}) close(end);
}

class Runtime : public ::testing::Test {
 protected:
  void SetUp() override {
    CUDA_OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CUDA_OK(cudaHostAlloc(reinterpret_cast<void**>(&words), 4096, 0));
    std::memset(words, 0, 4096);
  }
  void TearDown() override {
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaStreamDestroy(one));
    CUDA_OK(cudaStreamDestroy(two));
    CUDA_OK(cudaFreeHost(words));
  }
  // Holds the stream up until `open` is called.
  void hold(cudaStream_t stream) {
    void* wait = nullptr;
    CUDA_OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &wait, 12000, 0, nullptr));
    using Wait = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    ASSERT_EQ(reinterpret_cast<Wait>(wait)(stream, reinterpret_cast<CUdeviceptr>(words), 1, CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
  }
  void open() { __atomic_store_n(words, 1, __ATOMIC_RELEASE); }

  cudaStream_t one = nullptr, two = nullptr;
  std::uint32_t* words = nullptr;  // [1024] pinned; the first is hold's
};

TEST_F(Runtime, StreamsWaitForEvents) {
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreate(&event));
  CUDA_OK(cudaStreamWaitEvent(two, event, 0));  // never recorded: no wait
  CUDA_OK(cudaStreamSynchronize(two));
  hold(one);
  CUDA_OK(cudaMemsetAsync(words + 1, 0x11, 4, one));
  CUDA_OK(cudaEventRecord(event, one));
  CUDA_OK(cudaStreamWaitEvent(two, event, 0));
  CUDA_OK(cudaMemcpyAsync(words + 2, words + 1, 4, cudaMemcpyDefault, two));
  EXPECT_EQ(cudaStreamQuery(two), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  CUDA_OK(cudaEventDestroy(event));  // streams keep what they wait for
  open();
  CUDA_OK(cudaStreamSynchronize(two));
  EXPECT_EQ(words[2], 0x11111111u);
}

TEST_F(Runtime, TheLegacyStreamWaitsForThoseThatBlock) {
  cudaStream_t blocks = nullptr;
  CUDA_OK(cudaStreamCreate(&blocks));
  hold(blocks);
  CUDA_OK(cudaMemsetAsync(words + 1, 0x22, 4, blocks));
  CUDA_OK(cudaMemcpyAsync(words + 2, words + 1, 4, cudaMemcpyDefault, nullptr));
  CUDA_OK(cudaMemsetAsync(words + 3, 0x33, 4, one));  // does not
  CUDA_OK(cudaStreamSynchronize(one));
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  open();
  CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(words[2], 0x22222222u);
  CUDA_OK(cudaStreamDestroy(blocks));
}

TEST_F(Runtime, FunctionsOfTheHostRunInTheirTurn) {
  std::atomic<int> calls{0};
  const auto call = [](void* at) { static_cast<std::atomic<int>*>(at)->fetch_add(1); };
  hold(one);
  CUDA_OK(cudaLaunchHostFunc(one, call, &calls));
  CUDA_OK(cudaLaunchHostFunc(two, call, &calls));
  CUDA_OK(cudaStreamSynchronize(two));
  EXPECT_EQ(calls, 1);
  open();
  CUDA_OK(cudaStreamSynchronize(one));
  EXPECT_EQ(calls, 2);
}

TEST_F(Runtime, GraphsReplayWhatWasForked) {
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreate(&event));
  void* device = nullptr;
  CUDA_OK(cudaMalloc(&device, 64));
  CUDA_OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaEventRecord(event, one));
  CUDA_OK(cudaStreamWaitEvent(two, event, 0));
  cudaStreamCaptureStatus status{};
  CUDA_OK(cudaStreamIsCapturing(two, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaStreamSynchronize(two), cudaErrorStreamCaptureUnsupported);
  CUDA_OK(cudaMemcpyAsync(device, words + 1, 4, cudaMemcpyDefault, two));
  CUDA_OK(cudaEventRecord(event, two));
  CUDA_OK(cudaStreamWaitEvent(one, event, 0));
  CUDA_OK(cudaMemcpyAsync(words + 2, device, 4, cudaMemcpyDefault, one));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  CUDA_OK(cudaStreamEndCapture(one, &graph));
  CUDA_OK(cudaGraphInstantiate(&ready, graph, 0));
  CUDA_OK(cudaGraphDestroy(graph));
  for (std::uint32_t value = 5; value < 8; ++value) {
    words[1] = value;
    CUDA_OK(cudaGraphLaunch(ready, one));
    CUDA_OK(cudaStreamSynchronize(one));
    EXPECT_EQ(words[2], value);
  }
  CUDA_OK(cudaGraphExecDestroy(ready));
  // What nobody joins is no graph.
  CUDA_OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaEventRecord(event, one));
  CUDA_OK(cudaStreamWaitEvent(two, event, 0));
  CUDA_OK(cudaMemsetAsync(device, 0, 4, two));
  EXPECT_EQ(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  CUDA_OK(cudaEventDestroy(event));
  CUDA_OK(cudaFree(device));
}

TEST_F(Runtime, PageableMemoryIsReadAtTheCall) {
  void* device = nullptr;
  CUDA_OK(cudaMalloc(&device, 8));
  hold(one);
  std::uint64_t value = 7;
  CUDA_OK(cudaMemcpyAsync(device, &value, 8, cudaMemcpyDefault, one));
  value = 8;
  open();
  std::uint64_t got = 0;
  CUDA_OK(cudaMemcpyAsync(&got, device, 8, cudaMemcpyDefault, one));  // waits, as the memory is pageable
  EXPECT_EQ(got, 7u);
  CUDA_OK(cudaFree(device));
}

TEST_F(Runtime, PointersAreKnown) {
  void* device = nullptr;
  CUDA_OK(cudaMalloc(&device, 100));
  int own = 0;
  cudaPointerAttributes attributes{};
  CUDA_OK(cudaPointerGetAttributes(&attributes, static_cast<std::byte*>(device) + 99));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  CUDA_OK(cudaPointerGetAttributes(&attributes, static_cast<std::byte*>(device) + 100));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  CUDA_OK(cudaPointerGetAttributes(&attributes, words));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  CUDA_OK(cudaPointerGetAttributes(&attributes, &own));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  void* none = nullptr;
  EXPECT_EQ(cudaMalloc(&none, std::size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(&own), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDevice(77), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&own)), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  CUDA_OK(cudaFree(device));
}

}  // namespace
