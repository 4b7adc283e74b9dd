#pragma once

#include "plan/schedule/collective.h"

namespace weft::cost {

// The properties on which the bytes depend that cross a cut of a job's ranks in two. A value.
struct RankSet {
  Rank ranks = 0;
  bool has_root = false;
  Rank senders = 0;  // send_receive: ranks inside whose message is for a rank outside
  double own = 0;    // all_gather_v, reduce_scatter_v: bytes of the parts that belong to ranks inside
  // dispatch: shares of the message that must leave, and enter; combine: the other way; all_to_all_v: bytes
  double sent = 0, taken = 0;
};

// Bytes that must leave the set, and enter it, whatever the algorithm: those of all blocks that an input inside holds
// and an output outside wants, and the reverse (plan/schedule/collective.h). What is summed crosses as one partial sum
// at the least. Of a dispatch a token
// crosses once, however many ranks beyond have experts of it; of a combine their sum does.
struct Crossing {
  double out = 0, in = 0;
};
// Fills in `sent` and `taken` of all sets; `set_of[r]`: the number of rank r's set.
void count_tokens(const schedule::TokenRoutes& routes, std::span<const std::int32_t> set_of, std::span<RankSet*> sets);
// The same for an all_to_all_v of `counts` elements: of rank r for rank s, counts[r * ranks + s].
void count_pairs(std::span<const Bytes> counts, Bytes element_bytes, std::span<const std::int32_t> set_of,
                 std::span<RankSet*> sets);
Crossing crossing(Collective collective, Rank ranks, const RankSet& set, double bytes);

}  // namespace weft::cost
