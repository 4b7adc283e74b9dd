#include "api/session/fusion.h"

#include <algorithm>
#include <cstring>

#include "plan/schedule/element.h"

namespace weft::session {
namespace {

// Blocks of `count` elements that a rank's input and output have.
Rank blocks_in(const Request& r, Rank ranks) { return r.collective == Collective::kReduceScatter ? ranks : 1; }
Rank blocks_out(const Request& r, Rank ranks) { return r.collective == Collective::kAllGather ? ranks : 1; }

std::size_t block_bytes(const Request& r) { return r.count * static_cast<std::size_t>(size_of(r.type)); }

struct Extent {
  const std::byte* begin;
  const std::byte* end;
  bool meets(const Extent& o) const { return begin < o.end && o.begin < end; }
};
Extent extent(const void* at, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(at);
  return {begin, begin + bytes};
}
Extent in_of(const Request& r, Rank ranks) {
  return extent(r.in, block_bytes(r) * static_cast<std::size_t>(blocks_in(r, ranks)));
}
Extent out_of(const Request& r, Rank ranks) {
  return extent(r.out, block_bytes(r) * static_cast<std::size_t>(blocks_out(r, ranks)));
}

bool is_small(const Request& r, Rank ranks) {
  const bool known = r.collective == Collective::kAllReduce || r.collective == Collective::kAllGather ||
                     r.collective == Collective::kReduceScatter || r.collective == Collective::kBroadcast;
  const std::size_t blocks = static_cast<std::size_t>(std::max(blocks_in(r, ranks), blocks_out(r, ranks)));
  const bool has_in = r.in != nullptr || r.collective == Collective::kBroadcast;
  return known && has_in && r.op != ReduceOp::kPremulSum && !r.scalar && r.count > 0 && r.counts.empty() &&
         r.out != nullptr && block_bytes(r) * blocks <= static_cast<std::size_t>(kMostFusedPart);
}

bool alike(const Request& a, const Request& b) {
  return a.collective == b.collective && a.type == b.type && a.op == b.op && a.root == b.root &&
         a.reproducible == b.reproducible && a.algorithm == b.algorithm && a.protocol == b.protocol &&
         a.channels == b.channels && a.timeout == b.timeout;
}

}  // namespace

std::size_t fusible(std::span<const Request> requests, Rank ranks) {
  if (requests.empty() || !is_small(requests.front(), ranks)) return std::min<std::size_t>(requests.size(), 1);
  std::size_t bytes = 0, n = 0;
  for (; n < requests.size(); ++n) {
    const Request& next = requests[n];
    if (!is_small(next, ranks) || !alike(requests.front(), next)) break;
    const std::size_t blocks = static_cast<std::size_t>(std::max(blocks_in(next, ranks), blocks_out(next, ranks)));
    bytes += block_bytes(next) * blocks;
    if (bytes > static_cast<std::size_t>(kMostFused)) break;
    const Extent in = in_of(next, ranks), out = out_of(next, ranks);
    const bool touches =
        std::any_of(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(n), [&](const Request& before) {
          const Extent written = out_of(before, ranks);
          return written.meets(out) || (next.in != nullptr && written.meets(in)) ||
                 (before.in != nullptr && out.meets(in_of(before, ranks)));
        });
    if (touches) break;
  }
  return std::max<std::size_t>(n, 1);
}

FusionMemory::~FusionMemory() {
  for (const Piece& p : pieces_)
    if (!p.own) executor_->deallocate(p.memory);
}

std::byte* FusionMemory::take(Bytes bytes) {
  for (Piece& p : pieces_)
    if (!p.used && p.bytes >= bytes) {
      p.used = true;
      return p.memory;
    }
  const auto reached = executor_->allocate(bytes);
  Piece piece{reached ? static_cast<std::byte*>(*reached) : nullptr, bytes, true, nullptr};
  if (!reached) {
    piece.own = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    piece.memory = piece.own.get();
  }
  return pieces_.emplace_back(std::move(piece)).memory;
}

void FusionMemory::give_back(std::byte* memory) {
  for (Piece& p : pieces_)
    if (p.memory == memory) p.used = false;
}

std::shared_ptr<Fused> Fused::of(std::span<const Request> parts, Rank rank, Rank ranks, FusionMemory& memory) {
  auto fused = std::make_shared<Fused>();
  fused->parts.assign(parts.begin(), parts.end());
  fused->whole = parts.front();
  fused->memory = &memory;
  fused->rank = rank;
  fused->ranks = ranks;
  Request& whole = fused->whole;
  whole.count = 0;
  for (const Request& r : parts) whole.count += r.count;
  constexpr std::size_t kPage = 4096;
  const std::size_t in_bytes =
      (block_bytes(whole) * static_cast<std::size_t>(blocks_in(whole, ranks)) + kPage - 1) / kPage * kPage;
  const std::size_t out_bytes = block_bytes(whole) * static_cast<std::size_t>(blocks_out(whole, ranks));
  fused->buffers = memory.take(static_cast<Bytes>(in_bytes + out_bytes));
  whole.in = fused->buffers;
  whole.out = fused->buffers + in_bytes;
  return fused;
}

Fused::~Fused() {
  if (buffers != nullptr) memory->give_back(buffers);
}

void Fused::copy_in() const {
  if (whole.collective == Collective::kBroadcast && rank != whole.root) return;
  const std::size_t row = block_bytes(whole);
  std::size_t at = 0;
  for (const Request& r : parts) {
    const std::size_t bytes = block_bytes(r);
    for (std::size_t block = 0; block < static_cast<std::size_t>(blocks_in(r, ranks)); ++block)
      std::memcpy(buffers + block * row + at, static_cast<const std::byte*>(r.in) + block * bytes, bytes);
    at += bytes;
  }
}

void Fused::copy_out() const {
  const std::size_t row = block_bytes(whole);
  const auto* const from = static_cast<const std::byte*>(whole.out);
  std::size_t at = 0;
  for (const Request& r : parts) {
    const std::size_t bytes = block_bytes(r);
    for (std::size_t block = 0; block < static_cast<std::size_t>(blocks_out(r, ranks)); ++block)
      std::memcpy(static_cast<std::byte*>(r.out) + block * bytes, from + block * row + at, bytes);
    at += bytes;
  }
}

}  // namespace weft::session
