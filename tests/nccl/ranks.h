#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

extern "C" ncclResult_t weft_stream_synchronize(cudaStream_t stream);

#define NCCL_OK(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

// Ranks of NCCL's interface as threads, with the host as the device.
namespace weft::nccl_ranks {

class HostDevice : public testing::Environment {
  void SetUp() override { setenv("WEFT_DEVICE", "host", 1); }
};

inline cudaStream_t stream_of(int rank) {
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(rank + 1));
}

// Every rank is a thread with a communicator and a stream.
inline void on_ranks(int ranks, const std::function<void(ncclComm_t, int, cudaStream_t)>& body, bool destroys = true) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      ncclComm_t comm = nullptr;
      NCCL_OK(ncclCommInitRank(&comm, ranks, id, r));
      body(comm, r, stream_of(r));
      if (destroys) {
        NCCL_OK(ncclCommDestroy(comm));
      }
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace weft::nccl_ranks
