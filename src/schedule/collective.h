#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "schedule/step.h"

namespace weft::schedule {

using weft::Collective;

inline constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kAllGather,
                                              Collective::kReduceScatter, Collective::kBroadcast};

std::string_view name(Collective collective);  // "all_reduce"
Result<Collective> parse_collective(std::string_view name);

// A collective is its pre- and postcondition on the chunks of one message. The message is the larger side: what every
// rank holds at the end of an all_gather, or at the start of a reduce_scatter.

// True if rank's `buffer` (kIn or kOut) contains `chunk` at all.
bool holds(Collective collective, Buffer buffer, int chunk, Rank rank, Rank ranks, Rank root);

// Precondition: rank's in[chunk] is its own contribution to `chunk`. It has one exactly where holds(kIn) is true.
// Postcondition: rank's out[chunk], where it holds one, is the sum over these ranks' contributions, each once.
bool contributes(Collective collective, Rank contributor, int chunk, Rank root);

bool reduces(Collective collective);

// nccl-tests' factor from algbw to busbw: what the slowest link of an ideal machine carries per byte of message.
// Source: nccl-tests doc/PERFORMANCE.md.
double bus_factor(Collective collective, Rank ranks);

// How a message of `elements` is cut. Chunk i of n is contiguous in the message. Where each rank owns one chunk
// (all_gather, reduce_scatter) all chunks are equal; otherwise the first ones are a multiple of 64 bytes and the last
// may be smaller or empty.
class Layout {
 public:
  // Requires: element_bytes > 0; for all_gather and reduce_scatter elements is a multiple of chunks.
  Layout(Collective collective, Rank ranks, int chunks, Bytes elements, Bytes element_bytes);

  Bytes message_bytes() const { return bytes_; }
  Bytes element_bytes() const { return element_bytes_; }
  int chunks() const { return chunks_; }
  Bytes chunk_bytes(int chunk) const { return begin(chunk + 1) - begin(chunk); }
  Bytes largest_chunk() const { return chunk_bytes(0); }
  // Where the chunk starts in a rank's input or output. (Scratch is laid out by lowering.)
  Bytes offset(Buffer buffer, int chunk) const;

 private:
  Bytes begin(int chunk) const { return std::min(bytes_, chunk * stride_); }
  Collective collective_;
  int chunks_;
  Bytes element_bytes_, bytes_, stride_;
};

}  // namespace weft::schedule
