#pragma once

#include "onesided/pgas/wait.h"

namespace weft::pgas {

// A lock in a symmetric `long`, all of whose state is rank 0's copy: a ticket lock, first come
// first served. The upper half counts tickets drawn, the lower half those served; both are zero again when nobody holds
// it. Requires: the copy was zero before the first use; only the holder clears.
void set_lock(const Space& space, const Watch& watch, const char* call, long* lock);
bool try_lock(const Space& space, const char* call, long* lock);  // true: this rank holds it now
void clear_lock(const Space& space, const char* call, long* lock);

}  // namespace weft::pgas
