#pragma once

#include "tests/disagreement/case.h"

namespace weft::disagreement {

// A random program of communicators: groups that are split off groups, five levels deep, dropped, finalized, agreed and
// shrunk in any order, and used meanwhile: collectives in memory of every kind, messages with tags, a queue, transfers
// between agents, one-sided windows (windows.h), two groups in two threads. In some cases a rank is killed at a random
// moment or when its memory ends, may open no more descriptors, /dev/shm is small, calendar clocks jump, or there are
// 64 ranks. Ranks are processes; the calling process must have no other threads. Judges: sums are right; a call of a
// group without a dead rank succeeds; one with it succeeds or names that rank; the survivors of each group then shrink
// it to the same members; without deaths nothing but memory is left.
Verdict live_tree(std::uint64_t seed, Over over);

}  // namespace weft::disagreement
