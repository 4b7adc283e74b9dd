#pragma once

#include "plan/schedule/exchange/document.h"

namespace weft::schedule {

// Is this text an execution plan of MSCCL++ (JSON with "gpus")?
bool is_mscclpp(std::string_view text);

// An execution plan of MSCCL++ as its language writes it: thread blocks are lanes, chunks of memory channels remote
// operands, switch channels multicasts. Packets (LL) carry their flags with the data: a packet for a peer's scratch is
// a message from the thread block that writes it to the one that reads it. The parts of a thread block group are chunks
// of their own. A pipeline's body is taken once, over whole chunks. Errors (bad input), naming gpu, thread block and
// operation: operations of other kinds (port channels), a packet that is read twice, more than the limits.
Result<Document> parse_mscclpp(std::string_view name, std::string_view text);

}  // namespace weft::schedule
