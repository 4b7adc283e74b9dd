#pragma once

#include "net/bootstrap/meeting.h"

namespace weft::net::bootstrap {

// Meets those who live of a group that met before; `before`: as rank own.rank took it away from there; of `own` counts
// what is not in it. The lowest rank that lives is the host, at the address where it listens for peers; who does not
// listen any more has ended. Waits up to own.timeout for ranks that listen but do not come, once per rank that was
// expected to be the host.
// Errors: kAborted: too few of those who may live have come; others of meet().
Result<Meeting> meet_survivors(const Meeting& before, Invitation own);

}  // namespace weft::net::bootstrap
