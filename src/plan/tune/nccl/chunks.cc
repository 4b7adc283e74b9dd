#include "plan/tune/nccl/chunks.h"

#include <algorithm>
#include <cmath>

#include "plan/tune/nccl/constants.h"

namespace weft::tune::nccl {
namespace {

using protocol::Protocol;

constexpr Bytes kKi = 1 << 10;

// One of NCCL's limits of a chunk's size, so that several heads do not wait for large ones: messages of fewer than
// `chunks` chunks per head have chunks of at most `most`.
struct Limit {
  Bytes chunks, most;
};

Bytes limited(Bytes chunk, std::span<const Limit> limits, Bytes bytes, Bytes at_once) {
  for (const auto [chunks, most] : limits)
    if (bytes < chunks * at_once * chunk && chunk > most) chunk = most;
  return chunk;
}

Bytes of_nvls(const System& s, const Row& row, Bytes bytes) {
  static constexpr Limit kOneNode[] = {{64, 64 * kKi}, {8, 32 * kKi}, {2, 16 * kKi}};
  static constexpr Limit kTree[] = {{32, 256 * kKi}, {16, 128 * kKi}, {4, 64 * kKi}, {1, 32 * kKi}};
  const Bytes at_once = Bytes{row.channels} * s.nvls.channels;
  if (row.algorithm == Algorithm::kNvls) return limited(128 * kKi, kOneNode, bytes, at_once);
  return limited(s.nodes >= 4 ? 64 * kKi : 128 * kKi, kTree, bytes, at_once);
}

// A tree of lines: the more hops, the smaller.
Bytes of_ll128_tree(const System& s, const Row& row, Bytes bytes, Bytes chunk) {
  const double steps = 1 + std::floor(std::log2(s.nodes)) + 0.1 * s.per_node();
  for (const auto& [times, most] : {std::pair{64, 128 * kKi}, std::pair{16, 32 * kKi}})
    while (static_cast<double>(bytes / (row.channels * chunk)) < steps * times / s.per_node() && chunk > most)
      chunk /= 2;
  return chunk;
}

// A ring passes on half of a rank's chunk at a time: slots hold as many chunks of a small message as of a large one.
Bytes of_simple_ring(const System& s, Collective c, const Row& row, Bytes bytes) {
  const bool parts = c != Collective::kBroadcast && c != Collective::kReduce;
  if (!parts) return 512 * kKi;
  return std::min<Bytes>(2048 * kKi, bytes / (Bytes{s.ranks} * row.channels)) / 2;
}

}  // namespace

Bytes slice_of(const System& s, Collective c, const Row& row, Bytes bytes) {
  if (row.algorithm == Algorithm::kNvls || row.algorithm == Algorithm::kNvlsTree) return of_nvls(s, row, bytes);
  const Bytes slot = protocol::traits(row.protocol).slice_bytes;
  if (row.algorithm == Algorithm::kRing && row.protocol == Protocol::kSimple) return of_simple_ring(s, c, row, bytes);
  if (row.algorithm == Algorithm::kTree && row.protocol == Protocol::kLL128) return of_ll128_tree(s, row, bytes, slot);
  return slot;
}

Duration staging_of(const System& s, Collective c, const Row& row, Bytes bytes) {
  if (row.algorithm != Algorithm::kNvls && row.algorithm != Algorithm::kNvlsTree) return {};
  const int copying = kNvlsWarps - (s.per_node() <= 6 ? kNvlsSummingOfFew : kNvlsSumming);
  const double rate = kCopyRate * copying / 2 / kNvlsWarps;
  const double chunk = static_cast<double>(std::min(row.slice * s.nvls.channels, bytes / row.channels));
  const int times = c == Collective::kAllReduce ? 2 : 1;  // all_gather copies out only, reduce_scatter in only
  const Duration hand_over = Duration::microseconds(kHopLatency[kNvlink][static_cast<int>(Algorithm::kRing)][2]);
  return (hand_over + Duration::seconds(chunk / BytesPerSecond::gigabytes(rate).value())) * times;
}

}  // namespace weft::tune::nccl
