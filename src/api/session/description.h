#pragma once

#include <string>

#include "exec/fabric/fabric.h"
#include "plan/schedule/lower/lower.h"
#include "weft/communicator.h"

// Calls in two words, as peers hand them to each other when they find that they disagree.
namespace weft::session {

fabric::Description describe(const Request& request, const schedule::Plan& plan);

// The user's call that a collective is made in.
enum class Inside : std::uint8_t { kNothing, kFinalize, kSplit, kGrow };
std::string_view name(Inside call);
// A collective inside another call, which is another call than the user's own collective. `count`: that ranks must
// agree on.
fabric::Description inside(Inside call, std::uint64_t count, fabric::Description collective);

// "all_reduce of 20 float (sum, ring, LL64 x 1)"; what the collective does not use is left out.
std::string text_of(const fabric::Description& description);

// The first field that differs; empty: none.
std::string differing_field(const fabric::Description& a, const fabric::Description& b);

}  // namespace weft::session
