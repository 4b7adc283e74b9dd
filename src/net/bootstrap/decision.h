#pragma once

#include <optional>

#include "net/bootstrap/member.h"

// A decision about a communicator's members as the octets that ranks and arbiters exchange.
namespace weft::net::bootstrap {

Octets encode(const Member::Decision& decision);
// Nothing: these octets are no decision.
std::optional<Member::Decision> decode(const Octets& from);
// Whether all ranks are of a communicator of `ranks` and the members are in ascending order; callers use them as
// indices.
bool of_these_ranks(const Member::Decision& decision, Rank ranks);

}  // namespace weft::net::bootstrap
