#pragma once

#include <cstdint>

// What this runtime tells beside CUDA's functions. Bytes that kernels have loaded from and stored to device memory
// since the process began. Thread: any.
extern "C" void host_cuda_traffic(std::uint64_t* loaded, std::uint64_t* stored);
