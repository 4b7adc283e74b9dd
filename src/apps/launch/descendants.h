#pragma once

namespace weft::launch {

// Processes whose parent ends become children of this process instead of init's.
void adopt_orphans();

// Kills every process below this one, repeatedly until there is none, and reaps them.
// Requires: adopt_orphans() was called before they were started.
void kill_descendants();

}  // namespace weft::launch
