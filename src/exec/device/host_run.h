#pragma once

#include <span>

#include "exec/device/exchange.h"

namespace weft::exec::device {

// Carries out what kernels would: the frames of all ranks at the same time, each strand by a block of `threads` of the
// host's threads. Returns when all blocks have ended; why one gave up stands in its region's header.
// Requires: threads > 0 and, for LL128, a multiple of 8.
void run_on_host(std::span<const Frame> frames, DataType type, int threads);
void run_on_host(const Exchange& exchange, int threads);

}  // namespace weft::exec::device
