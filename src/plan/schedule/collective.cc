#include "plan/schedule/collective.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/nearest_words.h"

namespace weft::schedule {
namespace {

// Which blocks of the message a rank's buffer holds.
enum class Held {
  kAll,     // every rank all of them
  kRoot,    // the root all of them, the others none
  kOwned,   // every rank the one with its number
  kBefore,  // every rank the one of its predecessor
  kRow,     // every rank those from it
  kColumn,  // every rank those to it
  kNone,
};

struct Facts {
  std::string_view name, alias;  // alias: nccl-tests' spelling
  Held in, out;
  bool reduces;
  int blocks_per_rank;  // 0: one block; -1: one per pair
  Collective even;
};

using enum Collective;

const Facts& facts(Collective c) {
  static constexpr Facts kFacts[] = {
      {"all_reduce", "allreduce", Held::kAll, Held::kAll, true, 0, kAllReduce},
      {"broadcast", "bcast", Held::kRoot, Held::kAll, false, 0, kBroadcast},
      {"reduce", "reduce", Held::kAll, Held::kRoot, true, 0, kReduce},
      {"all_gather", "allgather", Held::kOwned, Held::kAll, false, 1, kAllGather},
      {"reduce_scatter", "reducescatter", Held::kAll, Held::kOwned, true, 1, kReduceScatter},
      {"all_to_all", "alltoall", Held::kRow, Held::kColumn, false, -1, kAllToAll},
      {"gather", "gather", Held::kOwned, Held::kRoot, false, 1, kGather},
      {"scatter", "scatter", Held::kRoot, Held::kOwned, false, 1, kScatter},
      {"send_recv", "sendrecv", Held::kOwned, Held::kBefore, false, 1, kSendReceive},
      {"barrier", "barrier", Held::kNone, Held::kNone, false, 0, kBarrier},
      {"all_gather_v", "allgatherv", Held::kOwned, Held::kAll, false, 1, kAllGather},
      {"reduce_scatter_v", "reducescatterv", Held::kAll, Held::kOwned, true, 1, kReduceScatter},
      {"all_to_all_v", "alltoallv", Held::kRow, Held::kColumn, false, -1, kAllToAll},
      {"dispatch", "moedispatch", Held::kOwned, Held::kAll, false, 1, kDispatch},
      {"combine", "moecombine", Held::kAll, Held::kOwned, true, 1, kCombine},
  };
  static_assert(std::size(kFacts) == std::size(kCollectives));
  return kFacts[static_cast<std::size_t>(c)];
}

// The letters of a name, as NCCL, its tests, MPI and torch spell it: AllReduce, ncclAllReduce, all_reduce_perf,
// ALL_REDUCE, MPI_Allreduce.
std::string plain(std::string_view text) {
  std::string letters;
  for (const char c : text)
    if (c != '_' && c != '-') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view prefix : {"nccl", "mpi"})
    if (letters.starts_with(prefix)) letters.erase(0, prefix.size());
  if (letters.ends_with("perf")) letters.resize(letters.size() - 4);
  return letters;
}

// torch.distributed's functions of other names.
constexpr std::pair<std::string_view, Collective> kOfTorch[] = {
    {"allgatherintotensor", kAllGather},   {"allgatherbase", kAllGather}, {"reducescattertensor", kReduceScatter},
    {"reducescatterbase", kReduceScatter}, {"alltoallsingle", kAllToAll}, {"sendreceive", kSendReceive}};

Held held(Collective c, Buffer buffer) { return buffer == Buffer::kIn ? facts(c).in : facts(c).out; }

}  // namespace

std::string_view name(Collective collective) { return facts(collective).name; }

Result<Collective> parse_collective(std::string_view text) {
  const std::string given = plain(text);
  std::vector<std::string> known;
  for (Collective c : kCollectives) {
    if (given == plain(facts(c).name) || given == facts(c).alias) return c;
    known.emplace_back(name(c));
  }
  for (const auto& [word, c] : kOfTorch)
    if (given == word) return c;
  return bad_input("unknown collective '{}'; {}there are {}", text, did_you_mean(text, known), fmt::join(known, ", "));
}

bool reduces(Collective collective) { return facts(collective).reduces; }

bool rooted(Collective collective) {
  return facts(collective).in == Held::kRoot || facts(collective).out == Held::kRoot;
}

bool uneven(Collective collective) { return facts(collective).even != collective; }
Collective even_form(Collective collective) { return facts(collective).even; }
bool routed(Collective collective) { return collective == kDispatch || collective == kCombine; }

const TokenRoutes& routes_of(const Shape& shape) { return or_shown(shape.routes, shape.ranks); }

ChunkId blocks(Collective collective, Rank ranks) {
  const int per_rank = facts(collective).blocks_per_rank;
  return per_rank == 0 ? 1 : per_rank > 0 ? ranks : ChunkId{ranks} * ranks;
}

bool holds(const Shape& s, Buffer buffer, ChunkId chunk, Rank rank) {
  const ChunkId block = s.block_of(chunk);
  if (routed(s.collective) && s.chunks == routes_of(s).tokens()) {
    const bool owns = block == rank;
    if ((buffer == Buffer::kIn) == (s.collective == kDispatch)) return owns && !routes_of(s).of(chunk).empty();
    return routes_of(s).goes(chunk, rank);
  }
  switch (held(s.collective, buffer)) {
    case Held::kAll:
      return true;
    case Held::kRoot:
      return rank == s.root;
    case Held::kOwned:
      return block == rank;
    case Held::kBefore:
      return (block + 1) % s.ranks == rank;
    case Held::kRow:
      return block / s.ranks == rank;
    case Held::kColumn:
      return block % s.ranks == rank;
    case Held::kNone:
      break;
  }
  return false;
}

Run held_blocks(const Shape& s, Buffer buffer, Rank rank) {
  const ChunkId all = blocks(s.collective, s.ranks);
  switch (held(s.collective, buffer)) {
    case Held::kAll:
      return {0, all};
    case Held::kRoot:
      return {0, rank == s.root ? all : 0};
    case Held::kOwned:
      return {rank, 1};
    case Held::kBefore:
      return {(rank - 1 + s.ranks) % s.ranks, 1};
    case Held::kRow:
      return {ChunkId{rank} * s.ranks, s.ranks};
    case Held::kColumn:
      return {rank, s.ranks, s.ranks};
    case Held::kNone:
      break;
  }
  return {};
}

Run contributors(const Shape& s, ChunkId block) {
  switch (held(s.collective, Buffer::kIn)) {
    case Held::kAll:
      return {0, s.ranks};
    case Held::kRoot:
      return {s.root, 1};
    case Held::kRow:
      return {block / s.ranks, 1};
    default:
      return {block, 1};
  }
}

std::vector<Rank> contributors_to(const Shape& s, ChunkId chunk) {
  if (s.collective == kCombine && s.chunks == routes_of(s).tokens()) {
    const auto to = routes_of(s).of(chunk);
    return {to.begin(), to.end()};
  }
  const Run all = contributors(s, s.block_of(chunk));
  std::vector<Rank> ranks;
  for (ChunkId i = 0; i < all.count; ++i) ranks.push_back(static_cast<Rank>(all.at(i)));
  return ranks;
}

Run shared_blocks(const Shape& s, Rank from, Rank to) {
  const Run given = held_blocks(s, Buffer::kIn, from), taken = held_blocks(s, Buffer::kOut, to);
  if (held(s.collective, Buffer::kIn) == Held::kRow) return {ChunkId{from} * s.ranks + to, 1};
  if (given.count == 0 || taken.count == 0) return {};
  // One of the two is everything or a single block.
  const Run& fewer = given.count <= taken.count ? given : taken;
  const Run& more = given.count <= taken.count ? taken : given;
  const bool inside = fewer.count > 1 || (fewer.first >= more.first && fewer.first < more.at(more.count));
  return inside ? fewer : Run{};
}

double bus_factor(Collective collective, Rank ranks) {
  const double n = ranks;
  switch (even_form(collective)) {
    case kAllReduce:
      return 2 * (n - 1) / n;
    case kAllGather:
    case kReduceScatter:
    case kAllToAll:
    case kGather:
    case kScatter:
    case kDispatch:
    case kCombine:
      return (n - 1) / n;
    default:
      return 1;
  }
}

Rank message_parts(Collective collective, Rank ranks) {
  return facts(collective).blocks_per_rank != 0 && collective != kSendReceive ? ranks : 1;
}

bool divides(Collective collective, Rank ranks, Bytes elements) {
  return uneven(collective) || elements % message_parts(collective, ranks) == 0;
}

bool may_be_in_place(Collective collective) {
  return even_form(collective) != kAllToAll && collective != kSendReceive && !routed(collective);
}

Layout::Layout(const Shape& shape, Bytes elements, Bytes element_bytes, std::span<const Bytes> counts)
    : shape_(shape), element_bytes_(element_bytes) {
  const ChunkId block_count = blocks(shape.collective, shape.ranks);
  WEFT_REQUIRE(shape.chunks > 0 && shape.chunks % block_count == 0, "{} chunks of {} blocks", shape.chunks,
               block_count);
  WEFT_REQUIRE(element_bytes > 0 && elements >= 0 && divides(shape.collective, shape.ranks, elements),
               "{} elements, {} ranks", elements, shape.ranks);
  per_block_ = shape.chunks / block_count;
  if (!uneven(shape.collective)) {
    block_bytes_ = largest_block_ = elements / message_parts(shape.collective, shape.ranks) * element_bytes;
    return;
  }
  WEFT_REQUIRE(static_cast<ChunkId>(counts.size()) == block_count, "{} counts of {} blocks", counts.size(),
               block_count);
  sizes_.reserve(counts.size());
  for (const Bytes c : counts) sizes_.push_back(c * element_bytes);
  largest_block_ = *std::max_element(sizes_.begin(), sizes_.end());
  // Each buffer holds its blocks in the order of their numbers, packed.
  for (const Buffer buffer : {Buffer::kIn, Buffer::kOut}) {
    std::vector<Bytes> end(static_cast<std::size_t>(shape.ranks), 0);  // of every rank's buffer
    auto& start = buffer == Buffer::kIn ? in_ : out_;
    const Held how = held(shape.collective, buffer);
    for (std::size_t b = 0; b < sizes_.size(); ++b) {
      const auto n = static_cast<std::size_t>(shape.ranks);
      Bytes& at = end[how == Held::kRow ? b / n : how == Held::kColumn ? b % n : how == Held::kOwned ? b : 0];
      start.push_back(at);
      at += sizes_[b];
    }
  }
}

Bytes Layout::stride_of(Bytes block_bytes) const {
  if (per_block_ == 1) return block_bytes;
  constexpr Bytes kLine = 64;
  // Tokens are what their caller says they are, not whole lines.
  const Bytes grain = kLine % element_bytes_ != 0 || routed(shape_.collective) ? element_bytes_ : kLine;
  const Bytes even = (block_bytes + per_block_ - 1) / per_block_;
  return (even + grain - 1) / grain * grain;
}

Bytes Layout::block_bytes(ChunkId block) const {
  return sizes_.empty() ? block_bytes_ : sizes_[static_cast<std::size_t>(block)];
}

Bytes Layout::chunk_bytes(ChunkId chunk) const {
  const Bytes block = block_bytes(chunk / per_block_), stride = stride_of(block);
  const Bytes begin = chunk % per_block_ * stride;
  return std::clamp<Bytes>(block - begin, 0, stride);
}

Bytes Layout::offset(Buffer buffer, ChunkId chunk) const {
  const ChunkId block = chunk / per_block_;
  const Bytes size = block_bytes(block);
  const Bytes within = std::min(size, chunk % per_block_ * stride_of(size));
  if (!sizes_.empty()) return (buffer == Buffer::kIn ? in_ : out_)[static_cast<std::size_t>(block)] + within;
  switch (held(shape_.collective, buffer)) {
    case Held::kAll:
    case Held::kRoot:
      return block * size + within;
    case Held::kRow:
      return block % shape_.ranks * size + within;
    case Held::kColumn:
      return block / shape_.ranks * size + within;
    default:
      return within;
  }
}

Bytes Layout::buffer_bytes(Buffer buffer, Rank rank) const {
  Bytes sum = 0;
  const auto n = static_cast<Bytes>(shape_.ranks);
  const Held how = held(shape_.collective, buffer);
  if (sizes_.empty() || how == Held::kNone) {
    const bool any = how != Held::kNone && (how != Held::kRoot || rank == shape_.root);
    const bool single = how == Held::kOwned || how == Held::kBefore;
    return any ? block_bytes_ * (single ? 1 : std::min<Bytes>(n, blocks(shape_.collective, shape_.ranks))) : 0;
  }
  for (ChunkId b = 0; b < static_cast<ChunkId>(sizes_.size()); ++b)
    if (holds(shape_, buffer, b * per_block_, rank)) sum += block_bytes(b);
  return sum;
}

InPlace in_place(const Layout& layout, Rank rank) {
  const Bytes in = layout.buffer_bytes(Buffer::kIn, rank), out = layout.buffer_bytes(Buffer::kOut, rank);
  if (!may_be_in_place(layout.shape().collective)) return {};
  if (in > 0 && in < out) return {.in = layout.offset(Buffer::kOut, rank)};
  if (out > 0 && out < in) return {.out = layout.offset(Buffer::kIn, rank)};
  return {};
}

}  // namespace weft::schedule
