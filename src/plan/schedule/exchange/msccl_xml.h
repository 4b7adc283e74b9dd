#pragma once

#include "plan/schedule/exchange/document.h"

namespace weft::schedule {

// MSCCL's XML: what msccl-tools writes and the runtimes of MSCCL and RCCL read.
//   <algo> of <gpu>s of <tb>s (thread blocks) of <step>s: s, r, cpy, re, rcs, rrc, rrs, rrcs, nop. A tb runs its steps
//   in order, sends to at most one gpu and receives from at most one, on its channel, first in, first out; a step may
//   wait for a step of another tb of its gpu (depid, deps). Buffers i, o, s are numbered in chunks.
// A tb becomes a lane, a step of `cnt` chunks a message of as many parts, a wait an Order. Slots are those of the
// runtime: two messages for Simple, eight for LL and LL128.
// weft's own attribute: `root` of <algo>, for collectives with a root.

// Errors (bad input): "name:12: gpu 1 tb 0 step 2: …", or a collective whose postcondition is not known (custom).
// Bounded in time and memory by `limits`. Whether the algorithm is right is for prove() to say.
Result<Document> parse_msccl_xml(std::string_view name, std::string_view text);

// Thread blocks are the ends of a lane's connections: a receiver and the sender it feeds share one, so that what a step
// fuses stays rrcs, rrs or rcs; the rest is split and goes through scratch. Messages of several chunks are gathered
// in scratch.
// Errors (bad input): the schedule uses what MSCCL has not: signals, peers' memory, multicast, aggregation, uneven
// parts.
Result<std::string> to_msccl_xml(const Document& document);

}  // namespace weft::schedule
