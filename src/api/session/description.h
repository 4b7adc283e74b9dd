#pragma once

#include <string>

#include "exec/fabric/fabric.h"
#include "plan/schedule/lower/lower.h"
#include "weft/communicator.h"

// Calls in two words, as peers hand them to each other when they find that they disagree.
namespace weft::session {

fabric::Description describe(const Request& request, const schedule::Plan& plan);

// The barrier of finalize(), which is another call than a barrier of the caller's.
fabric::Description finalize_of(fabric::Description barrier);

// "all_reduce of 20 float (sum, ring, LL64 x 1)"; what the collective does not use is left out.
std::string text_of(const fabric::Description& description);

// The first field that differs; empty: none.
std::string differing_field(const fabric::Description& a, const fabric::Description& b);

}  // namespace weft::session
