#pragma once

// What the modelled GPUs are like; settings come from the environment.
namespace weft::host_cuda {

constexpr int kThreadsOfProcessor = 2048;

// A number from the environment, or what it is without.
long setting(const char* name, long otherwise);
int gpus();        // WEFT_MODEL_GPUS, 1; at most 64
int processors();  // WEFT_MODEL_PROCESSORS, 8: of each

}  // namespace weft::host_cuda
