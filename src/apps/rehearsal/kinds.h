#pragma once

#include <vector>

#include "apps/rehearsal/recording.h"

namespace weft::rehearsal {

// Ranks that make calls of equal shape. Groups that a script makes one after the other, of equal size and without a
// common member, are a dimension; ranks are of one kind if they stand at the same place in every dimension in which
// messages are sent. In the others all members make the same calls, which a second rank of a kind confirms.
struct RankKind {
  std::vector<Rank> ranks;      // all of the job
  std::vector<Rank> rehearsed;  // those of them that are
};

// Groups of a dimension, as indices of Job::groups.
using Dimension = std::vector<int>;

// The dimensions are read from the rehearsed rank that made most groups: scripts make groups in the same order on all
// ranks.
std::vector<Dimension> dimensions(const Job& job);

// By first rank. Every rank of the job is of one kind.
std::vector<RankKind> kinds_of(const Job& job);

// Ranks whose rehearsal would complete the job: those that exchange messages with the first rehearsed rank, directly or
// through others, and one of each kind of which none is rehearsed.
std::vector<Rank> missing(const Job& job);

}  // namespace weft::rehearsal
