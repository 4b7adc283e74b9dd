#pragma once

#include "plan/schedule/lower/lower.h"

// What a session changes in its rank's program before it runs it.
namespace weft::session {

// Leaves out what copies bytes to where they are, if the output begins `shift` behind the input.
void leave_out_idle_copies(schedule::Program& program, Bytes shift);
// Messages of an all_to_all_v carry a tag of their elements, on which both ends must agree besides the call.
void tag_pairs(schedule::Program& program, const schedule::Task& task, Rank self);
// Pairs without elements exchange a message, too: else a rank that expects some would wait for them in vain. All are
// sent at once; what comes is taken in whatever order, and leads nowhere. A line needs a byte, whichever it is.
void add_empty_messages(schedule::Program& program, const schedule::Task& task, protocol::Protocol protocol, Rank self);

}  // namespace weft::session
