#pragma once

#include "weft/transfer.h"

// One list of blocks from several places at once: a peer's memory, files, objects.
namespace weft::transfer {

// A place that has some of the blocks. What it is expected to take serves the first choices; afterwards what it took.
struct StripeSource {
  std::string name;                        // for messages and the report
  Prepared list;                           // of a peer, or of this agent's files and objects
  std::vector<std::int64_t> elements;      // of each block; below 0: it does not have it; empty: element i has block i
  std::vector<std::uint64_t> generations;  // of each block, where the list is of a fenced region
  bool verify = false;                     // as RequestOptions::verify
  double start_us = 50;                    // of a request
  double bytes_per_us = 1000;              // 1 GB/s
};

struct StripeShare {
  std::string name;
  std::int64_t blocks = 0;  // that arrived first from here
  std::int64_t hedged = 0;  // of these, read a second time because another source was expected to be late
  std::int64_t failed = 0;  // requests
  std::string problem;      // the last failure
};

// Reads every block into the element of the same number of `local`, which has block_bytes. Each block goes to the
// source that is expected to have it first. When no block is left to begin, a source that has nothing to do reads those
// that others are expected to bring later than it would, into memory beside; the first to end counts, the other is
// cancelled. Where a source fails, the others go on. The call returns when every block is there. Errors: kNoResources:
// memory; kTimeout; a block that no source can give, with each one's reason; afterwards nothing is under way. The
// agent's calls move its data: it may not be moved from meanwhile.
Result<std::vector<StripeShare>> read_striped(Agent& agent, const Prepared& local, std::int64_t block_bytes,
                                              std::span<const StripeSource> sources,
                                              std::chrono::milliseconds deadline = std::chrono::milliseconds(0));

}  // namespace weft::transfer
