#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/schedule/step.h"
#include "plan/schedule/token_routes.h"

namespace weft::schedule {

using weft::Collective;

inline constexpr Collective kCollectives[] = {
    Collective::kAllReduce,     Collective::kBroadcast, Collective::kReduce,     Collective::kAllGather,
    Collective::kReduceScatter, Collective::kAllToAll,  Collective::kGather,     Collective::kScatter,
    Collective::kSendReceive,   Collective::kBarrier,   Collective::kAllGatherV, Collective::kReduceScatterV,
    Collective::kAllToAllV,     Collective::kDispatch,  Collective::kCombine};

std::string_view name(Collective collective);  // "all_reduce"
// Also nccl-tests' spellings: "allreduce", "alltoall", "sendrecv". Errors (bad input): names those there are.
Result<Collective> parse_collective(std::string_view name);

bool reduces(Collective collective);
bool rooted(Collective collective);           // one rank is the root
bool uneven(Collective collective);           // parts differ in size
Collective even_form(Collective collective);  // all_gather for all_gather_v; others as they are
// dispatch and combine: an all_gather and a reduce_scatter of which every token (chunk) takes part on some ranks only.
bool routed(Collective collective);
// All parts are equally large, and all ranks exchange as much with each other: fewer ranks stand for many.
inline bool alike(Collective collective) { return !uneven(collective) && !routed(collective); }

// The message is cut into blocks, which the collective distinguishes, and these into chunks, as many as the algorithm
// wants: one block where all ranks hold everything, a block per rank where ranks own parts, a block per pair of ranks
// (from * ranks + to) for all_to_all. Chunks are numbered through all blocks.
ChunkId blocks(Collective collective, Rank ranks);

// A collective on a number of ranks, cut into chunks: all that its pre- and postcondition depend on.
struct Shape {
  Collective collective = Collective::kAllReduce;
  Rank ranks = 1;
  Rank root = 0;
  ChunkId chunks = 1;                   // a multiple of blocks()
  const TokenRoutes* routes = nullptr;  // of the routed ones, whose chunks are the tokens; null: shown_routes(ranks)

  ChunkId block_of(ChunkId chunk) const { return chunk / (chunks / blocks(collective, ranks)); }
  bool operator==(const Shape&) const = default;
};

// A collective is its pre- and postcondition on the chunks of one message.
// True if rank's `buffer` (kIn or kOut) contains `chunk` at all. Of a routed collective that is cut otherwise than into
// its tokens: if it may contain some of it.
//   Precondition: rank's in[chunk], where it holds one, is its own contribution to `chunk`.
//   Postcondition: rank's out[chunk], where it holds one, is the sum over all contributions to it, each once.
// A barrier has no chunks that anybody holds; its postcondition is that every rank's end comes after every rank's
// begin.
bool holds(const Shape& shape, Buffer buffer, ChunkId chunk, Rank rank);

// Blocks or ranks in equal distances.
struct Run {
  ChunkId first = 0, count = 0, stride = 1;

  ChunkId at(ChunkId i) const { return first + i * stride; }
};
Run held_blocks(const Shape& shape, Buffer buffer, Rank rank);
Run contributors(const Shape& shape, ChunkId block);  // the ranks whose inputs hold it; of combine: all
// The ranks that contribute to a chunk's sum, rising.
std::vector<Rank> contributors_to(const Shape& shape, ChunkId chunk);
const TokenRoutes& routes_of(const Shape& shape);  // Requires: routed.
// Blocks of one rank's input that another's output (or its own) takes.
Run shared_blocks(const Shape& shape, Rank from, Rank to);

// nccl-tests' factor from algbw to busbw: what the slowest link of an ideal machine carries per byte of message.
// Source: nccl-tests doc/PERFORMANCE.md.
double bus_factor(Collective collective, Rank ranks);

// What the size of a message counts, as in nccl-tests: the larger of a rank's input and output. So an all_to_all of
// `elements` has elements / ranks for every peer; send_receive sends `elements`. Uneven: the sum of all parts, of an
// all_to_all_v the mean over the ranks.
// Parts that such a message consists of: one per rank where ranks own parts of it, else one.
Rank message_parts(Collective collective, Rank ranks);
bool divides(Collective collective, Rank ranks, Bytes elements);  // into whole parts?
// May an output lie in the input's memory? Otherwise peers' parts would overwrite what is still to be sent.
bool may_be_in_place(Collective collective);

// How a message of `elements` lies in the ranks' buffers. Chunks of a block are contiguous; but for the last ones,
// which may be smaller or empty, they are a multiple of 64 bytes where a block has several.
class Layout {
 public:
  // `counts`: elements of every block, for the uneven collectives; a rank of an all_to_all_v may leave blocks zero that
  // it neither sends nor receives. Owns: a copy of what it needs.
  // Requires: element_bytes > 0; divides(elements); counts as many as blocks for the uneven, none otherwise.
  Layout(const Shape& shape, Bytes elements, Bytes element_bytes, std::span<const Bytes> counts = {});

  const Shape& shape() const { return shape_; }
  Bytes element_bytes() const { return element_bytes_; }
  ChunkId chunks() const { return shape_.chunks; }
  Bytes chunk_bytes(ChunkId chunk) const;
  Bytes largest_chunk() const { return std::min(largest_block_, stride_of(largest_block_)); }
  // Where the chunk starts in the buffer of a rank that holds it. (Scratch is laid out by lowering.)
  Bytes offset(Buffer buffer, ChunkId chunk) const;
  Bytes block_bytes(ChunkId block) const;
  Bytes buffer_bytes(Buffer buffer, Rank rank) const;

 private:
  Bytes stride_of(Bytes block_bytes) const;
  Shape shape_;
  ChunkId per_block_;  // chunks
  Bytes element_bytes_, block_bytes_ = 0, largest_block_ = 0;
  // Uneven: bytes of every block, and where it starts in an input or output.
  std::vector<Bytes> sizes_, in_, out_;
};

// Where a call in place has its two sides in one memory: the smaller one, where it has something, is this rank's part
// of the larger. Those of all_to_all begin together.
struct InPlace {
  Bytes in = 0, out = 0;
};
InPlace in_place(const Layout& layout, Rank rank);

}  // namespace weft::schedule
