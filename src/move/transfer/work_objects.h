#pragma once

#include "move/transfer/work.h"

// The parts of a request that are of objects: threads of the agent's ObjectIo move them, the request looks after them.
namespace weft::transfer {

// Takes what is over; ends the request where a part failed.
void reap(detail::Work& work);
// Submits as many parts as may be under way. Requires: the next element is of an object.
void submit_objects(detail::Work& work);
// Goes on with the end of a request that writes objects.
void finish_objects(detail::Work& work);

}  // namespace weft::transfer
