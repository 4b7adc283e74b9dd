#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace weft::kernels {

// How the host launches kernels: replayed from CUDA graphs; one by one by PyTorch, ahead of the GPU; one by one, each
// waited for (CUDA_LAUNCH_BLOCKING=1).
enum class Launch : std::uint8_t { kGraphs, kEager, kBlocking };
// "graphs", "eager" or "blocking".
Result<Launch> parse_launch(std::string_view text);

// Seconds that PyTorch's host takes to launch one kernel: data/kernels/host.json, which names the source.
double eager_kernel();

// Seconds that a GPU waits for `launching` seconds of launches whose kernels run for `running` seconds.
double waits_for_host(Launch launch, double launching, double running);

}  // namespace weft::kernels
