#pragma once

#include <cstdint>

// A function of this runtime beside CUDA's. Bytes that kernels have loaded from and stored to device memory
// since the process began. Thread: any.
extern "C" void host_cuda_traffic(std::uint64_t* loaded, std::uint64_t* stored);
