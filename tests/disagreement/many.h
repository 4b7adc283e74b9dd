#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/disagreement/case.h"

namespace weft::disagreement {

// Which cases are lived through, and how.
struct Many {
  std::int64_t cases = 10000;
  std::int64_t seed = 1;      // of the first case; the others' follow
  std::vector<Over> over;     // the cases take turns
  bool deaths = false;        // ranks are processes that end or are stopped
  bool trees = false;         // programs of communicators, see tree.h
  bool keep_going = false;    // after a case whose answers were not allowed
  int jobs = 1;               // processes that share the cases; most of a case is waiting
  std::int64_t hang_s = 120;  // a case that takes longer hangs
};

// Lives through all of them, prints each case whose answers were not allowed, what hung and what was left behind
// (descriptors, memory, files in shared memory, processes), then one line of counts.
// Returns whether there was nothing of the kind. The calling process must have no other threads.
bool live_many(const Many& many);

}  // namespace weft::disagreement
