#pragma once

#include <vector>

#include "base/result.h"
#include "exec/device/image.h"
#include "exec/device/layout.h"
#include "plan/protocol/capabilities.h"
#include "plan/schedule/lower/lower.h"

namespace weft::exec::device {

// The program of one rank for kernels, see image.h. Errors (kUnsupported, blames the input): operands through switches;
// more than kMostEnds operands; messages in parts by a protocol of lines, whose units would be shared by two
// operations; more strands than the regions have.
Result<std::vector<std::byte>> flatten(const schedule::Program& program, protocol::Protocol protocol,
                                       const Geometry& geometry);
// What kernels with regions of this geometry can do.
protocol::Capabilities capabilities(const Geometry& geometry);

}  // namespace weft::exec::device
