#include "plan/tune/nccl/model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "plan/tune/nccl/chunks.h"
#include "plan/tune/nccl/constants.h"
#include "plan/tune/nccl/grouped.h"
#include "plan/tune/nccl/symmetric.h"

namespace weft::tune::nccl {
namespace {

using protocol::Protocol;

int index(Algorithm a) { return static_cast<int>(a); }
int index(Protocol p) { return p == Protocol::kLL ? 0 : p == Protocol::kLL128 ? 1 : 2; }

int generation(int sm) { return sm >= 100 ? 3 : sm >= 90 ? 2 : sm >= 80 ? 1 : 0; }
int scale(int nodes) { return std::min(nodes, 3) - 1; }

bool is_collnet(Algorithm a) { return a == Algorithm::kCollNetDirect || a == Algorithm::kCollNetChain; }
bool is_nvls(Algorithm a) { return a == Algorithm::kNvls || a == Algorithm::kNvlsTree; }
bool parts(Collective c) { return c == Collective::kAllGather || c == Collective::kReduceScatter; }

// What a rank sends one after the other around a ring.
int ring_steps(Collective c, int ranks) {
  return c == Collective::kAllReduce ? 2 * (ranks - 1) : parts(c) ? ranks - 1 : ranks;
}

const Graph& graph_of(const System& s, Algorithm a) {
  if (is_nvls(a)) return s.nvls;
  return a == Algorithm::kTree ? s.tree : s.ring;
}

// Why NCCL does not consider it; empty: it does.
std::string obstacle(const System& s, Collective c, Algorithm a, Protocol p) {
  const bool rooted = c == Collective::kBroadcast || c == Collective::kReduce;
  if (rooted && a != Algorithm::kRing) return "only rings do this collective";
  if (parts(c) && (a == Algorithm::kTree || a == Algorithm::kCollNetChain || a == Algorithm::kNvlsTree))
    return "does not do this collective";
  if (c == Collective::kAllReduce && a == Algorithm::kPat) return "does not do this collective";
  const OfRelease& own = of_release(s.release);
  if ((a == Algorithm::kPat && own.pat == 0) || (a == Algorithm::kCollNetDirect && parts(c) && !own.collnet_parts))
    return "this release does not have it";
  if (a != Algorithm::kTree && a != Algorithm::kRing && p != Protocol::kSimple) return "runs with Simple only";
  if (s.only_simple && p != Protocol::kSimple) return "the network's plugin allows Simple only";
  if (p == Protocol::kLL128 && (!s.ll128 || s.compute_capability < 70))
    return "128-byte stores are not kept whole here";
  if (a == Algorithm::kPat && (s.per_node() > 1 || s.nodes == 1)) return "needs one GPU per node";
  if (is_collnet(a) && !s.collnet) return "no network that reduces (CollNet) is enabled";
  if (is_collnet(a) && s.per_node() > 8) return "more than 8 ranks per node";
  if (a == Algorithm::kCollNetDirect && !s.nvswitch) return "needs NVSwitch";
  if (is_nvls(a) && s.nvls.channels < 2) return "no switch that reduces: needs NVSwitch and Hopper";
  if (a == Algorithm::kNvlsTree && s.nodes == 1) return "one node";
  if (a == Algorithm::kNvls && s.nodes > 1 && !s.collnet) return "across nodes it needs CollNet";
  if (graph_of(s, a).channels < 1) return "no way over all ranks was found";
  return "";
}

constexpr int kHopper = 2, kBlackwell = 3;

// What a channel carries at the most, by the release where the GPU is a Blackwell.
double most_of(const System& s, const double (&older)[3][3], const double (&blackwell)[3]) {
  const int gen = generation(s.compute_capability);
  return gen == kBlackwell ? blackwell[scale(s.nodes)] : older[gen][scale(s.nodes)];
}

// Until 2.27: src/graph/tuning.cc, ncclTopoTuneModel.
double nvls_channel_rate_2_27(const System& s, Collective c, Algorithm a) {
  const double local = s.per_node();
  if (a == Algorithm::kNvlsTree) return std::min(s.nvls.intra, s.nodes <= 2 ? s.nvls.inter : s.nvls.inter / 2);
  if (c == Collective::kAllReduce || !of_release(s.release).nvls_parts) return std::min(s.nvls.intra, s.nvls.inter);
  return std::min(s.nvls.intra * (local - 1) / local, s.nvls.inter * 0.9);
}

double nvls_channel_rate(const System& s, Collective c, Algorithm a) {
  if (!of_release(s.release).nvls_by_efficiency) return nvls_channel_rate_2_27(s, c, a);
  const int gen = generation(s.compute_capability);
  const double heads = s.nvls.channels, local = s.per_node();
  double intra = s.nvls.intra * kNvlsEfficiency[gen] * (heads - 1) / heads;
  intra *= c == Collective::kAllReduce ? 2 : (local - 1) / local;
  const double inter = s.nvls.inter * (a == Algorithm::kNvlsTree && s.nodes <= 2 ? 2 : 1);
  const double rate = std::min(intra, inter);
  return a == Algorithm::kNvlsTree ? std::min(rate, most_of(s, kMostNvlsTree, of_release(s.release).nvls_tree)) : rate;
}

double collnet_direct_rate(const System& s, Collective c, double bus) {
  if (parts(c) && !of_release(s.release).nvls_parts) {  // between what was measured with one rank per node and eight
    const double eight = (s.per_node() - 1) / 7.0;
    return s.per_node() * (s.nodes <= 2 ? s.ring.intra : s.ring.inter) * (eight * 0.85 + (1 - eight) * 0.95);
  }
  if (parts(c)) return s.per_node() * std::min(s.ring.intra, 0.9 * s.ring.inter);
  double factor = static_cast<double>(s.per_node()) / s.ring.channels;
  factor -= (factor - 1) / 2;
  return bus / factor * (s.compute_capability >= 90 ? 0.85 : 1);
}

// GB/s of the message.
double rate_of(const System& s, Collective c, Algorithm a, Protocol p) {
  const int gen = generation(s.compute_capability), many = scale(s.nodes);
  // Across nodes the LL limit goes by the CPU's vendor, not by the GPU.
  const OfRelease& own = of_release(s.release);
  const double most_ll = s.nodes == 1 && gen == kBlackwell ? own.most_ll_blackwell
                         : s.nodes == 1 && gen == kHopper  ? own.most_ll_hopper
                                                           : kMostLL[s.nodes == 1 ? gen
                                                                     : s.amd_cpu  ? 1
                                                                                  : 0][many];
  const Graph& graph = graph_of(s, a);
  const double channels = graph.channels;
  double bus = channels * (is_nvls(a)                      ? nvls_channel_rate(s, c, a)
                           : s.nodes <= 2 || is_collnet(a) ? graph.intra
                                                           : graph.inter);
  if (a == Algorithm::kRing && p == Protocol::kLL) {
    const bool quarter = s.nodes > 1 || c == Collective::kAllReduce || c == Collective::kReduce;
    bus = std::min(most_ll, bus * (!own.ll_of_thirds ? 0.5 : quarter ? 0.25 : 1.0 / 3));
  }
  if (a == Algorithm::kRing && p == Protocol::kLL128)
    bus = std::min(bus * (!own.lone_ranks && s.per_node() == 1 ? 0.7 : 0.92),
                   channels * most_of(s, kMostRingLL128, own.ring_ll128));
  if (a == Algorithm::kTree) {
    bus = std::min(bus * 0.92, channels * most_of(s, kMostTree, own.tree));
    if (p == Protocol::kLL) bus = std::min(bus / 3.8, most_ll);
    if (p == Protocol::kLL128)
      bus =
          std::min(bus * (s.nodes == 1 ? 7.0 / 9 : 120.0 / 128), channels * most_of(s, kMostTreeLL128, own.tree_ll128));
  }
  if (a == Algorithm::kPat) bus *= own.pat;
  if (a == Algorithm::kCollNetDirect) bus = collnet_direct_rate(s, c, bus);
  if (parts(c) && a != Algorithm::kRing && !(own.parts_scaled && is_nvls(a))) return bus;
  if (is_nvls(a) && !own.nvls_by_efficiency) return bus * 5 / 6;
  const bool around = a == Algorithm::kRing || is_nvls(a);
  return bus * (around ? static_cast<double>(s.ranks) / ring_steps(c, s.ranks) : 0.5);
}

double ring_latency(const System& s, Collective c, Protocol p, double intra, double inter) {
  const int steps = ring_steps(c, s.ranks);
  if (c == Collective::kBroadcast || c == Collective::kReduce) {
    const double hop = s.nodes > 1 ? inter : intra;
    const double passed = p == Protocol::kSimple
                              ? kHopLatency[s.nodes > 1     ? kNet
                                            : s.ring.nvlink ? kNvlink
                                                            : kPci][index(Algorithm::kTree)][index(p)]
                              : hop;
    return s.ring.same_channels ? hop : steps * passed;
  }
  const int twice = of_release(s.release).lone_ranks ? 2 * (s.nodes - 1) : 2 * s.nodes;
  const int across = s.nodes == 1 ? 0 : c == Collective::kAllReduce ? twice : s.nodes - 1;
  if (s.nodes > 1) intra = std::max(intra, s.net_overhead * (p == Protocol::kSimple ? 3 : 1));
  return (steps - across) * intra + across * inter;
}

// us
double latency_of(const System& s, Collective c, Algorithm a, Protocol p) {
  const OfRelease& own = of_release(s.release);
  const bool slow_tree = own.slow_trees && a == Algorithm::kTree && p == Protocol::kSimple;
  constexpr double kSlowHop = 28;
  const double intra = slow_tree    ? kSlowHop
                       : is_nvls(a) ? own.nvls_hop
                                    : kHopLatency[graph_of(s, a).nvlink ? kNvlink : kPci][index(a)][index(p)];
  const Algorithm net = own.lone_ranks && s.per_node() == 1 ? Algorithm::kTree : a;
  // Simple crosses the network twice: the data, and the flush behind it.
  const double hop = slow_tree                     ? kSlowHop
                     : net == Algorithm::kNvlsTree ? own.nvls_tree_hop
                                                   : kHopLatency[kNet][index(net)][index(p)];
  const double inter = hop + s.net_latency * (p == Protocol::kSimple ? 2 : 1);
  const double base = slow_tree ? 0 : kBaseLatency[index(a)][index(p)], local = s.per_node(), nodes = s.nodes;
  switch (a) {
    case Algorithm::kRing:
      return base + ring_latency(s, c, p, intra, inter);
    case Algorithm::kTree:
      return base + 2 * ((local - 1) * intra + std::floor(std::log2(nodes)) * inter);
    case Algorithm::kCollNetDirect:
      return base + 2 * (std::min(1.0, local - 1) * intra + (local - 1) * 0.4) + inter;
    case Algorithm::kCollNetChain:
      return base + 2 * (local - 1) * intra + inter;
    case Algorithm::kNvls:
      return intra + (s.nodes > 1 ? inter : 0);
    case Algorithm::kNvlsTree:
      return intra + 2 * std::log2(nodes) * inter;
    case Algorithm::kSendRecv:
    case Algorithm::kSymmetricLL:
    case Algorithm::kSymmetricLLMulticast:
    case Algorithm::kSymmetric:
    case Algorithm::kSymmetricMulticast:
      return 0;
    case Algorithm::kPat:
      return base + std::log2(nodes) * (inter / 3.5) + s.ranks * 2.8;
  }
  return 0;
}

Duration time_of(const System& s, Collective c, const Row& row, Bytes bytes) {
  double rate = row.rate.gb(), latency = row.latency.us();
  const auto size = static_cast<double>(bytes);
  if (c == Collective::kAllReduce && bytes >= 64) {
    const auto class_of = static_cast<std::size_t>(std::log2(size / 64));
    const bool corrected = row.algorithm == Algorithm::kTree ||
                           (row.algorithm == Algorithm::kNvlsTree && of_release(s.release).nvls_tree_factor &&
                            s.compute_capability >= 100 && !s.amd_cpu);
    if (corrected && class_of < kTreeSizes) rate *= kTreeFactor[index(row.protocol)][class_of];
    if (row.algorithm == Algorithm::kRing && row.protocol == Protocol::kSimple && s.nodes > 1 &&
        size / (s.ring.channels * s.ranks) >= 64)
      latency *= s.compute_capability < 80 ? 1.9 : 1.4;
  }
  return Duration::microseconds(latency + size / (1000 * rate));
}

int most_threads(const System& s, Algorithm a, Protocol p) {
  if (p == Protocol::kLL) return 512;
  if (p == Protocol::kLL128) return 640;
  if (is_collnet(a) || is_nvls(a) || a == Algorithm::kPat) return 640;
  return a == Algorithm::kRing && s.ring.intra * s.ring.channels <= 12 ? 256 : 512;
}

int nvls_channels(const System& s) {
  if (s.compute_capability < 100) return 16;
  // src/transport/nvls.cc: NVLS_NCHANNELS_SM90, _SM100 since 2.25, _SM100_NVL since 2.27
  if (s.release < 2500) return 16;
  if (s.nodes == 1) return s.release < 2700 ? 32 : 24;
  if (s.release < 3000) return 32;
  return s.nodes == 2 && s.nic >= 48 ? 32 : s.nic >= 48 ? 24 : 32;
}

// Fewer channels, then fewer threads, for messages that would leave them idle.
void count_channels(const System& s, Collective c, Bytes bytes, Row& row) {
  row.threads = most_threads(s, row.algorithm, row.protocol);
  row.channels = is_nvls(row.algorithm) ? nvls_channels(s) : s.channels;
  if (row.algorithm == Algorithm::kRing || row.algorithm == Algorithm::kTree) {
    const Bytes each = row.protocol == Protocol::kSimple                                    ? 64
                       : row.protocol == Protocol::kLL && row.algorithm == Algorithm::kRing ? 8 * s.ranks
                                                                                            : 8;
    while (row.channels > 1 && bytes < row.channels * row.threads * each) --row.channels;
    while (bytes < row.channels * row.threads * each && row.threads % 128 == 0) row.threads /= 2;
  }
  // A channel gets at least 32 KiB of traffic.
  const Bytes per_byte = (c == Collective::kAllReduce ? 2
                          : parts(c)                  ? s.ranks
                                                      : 1) *
                         (row.protocol == Protocol::kLL ? 4 : 1);
  const Bytes useful = (bytes * per_byte + (32 << 10) - 1) / (32 << 10);
  if (!is_nvls(row.algorithm)) row.channels = static_cast<int>(std::clamp<Bytes>(useful, 1, row.channels));
}

}  // namespace

std::string_view name(Algorithm algorithm) {
  static constexpr std::string_view kNames[] = {"Tree", "Ring",     "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree",
                                                "PAT",  "SendRecv", "SymLL",         "SymLLMC",      "Sym",  "SymMC"};
  return kNames[index(algorithm)];
}

bool models(Collective c) {
  return c == Collective::kAllReduce || parts(c) || c == Collective::kBroadcast || c == Collective::kReduce ||
         is_grouped(c);
}

std::vector<Row> rows(const System& s, Collective collective, Bytes bytes) {
  WEFT_REQUIRE(models(collective));
  if (is_grouped(collective)) return grouped_rows(s, collective, bytes);
  if (s.windows && why_not_symmetric(s, collective).empty()) return symmetric_rows(s, collective, bytes);
  std::vector<Row> all;
  Row* best = nullptr;
  all.reserve(kAlgorithms * std::size(kProtocols));
  for (int a = 0; a < kAlgorithms; ++a) {
    for (const Protocol p : kProtocols) {
      Row& row = all.emplace_back(Row{.algorithm = static_cast<Algorithm>(a), .protocol = p});
      row.reason = s.ranks == 1 ? "one rank" : obstacle(s, collective, row.algorithm, p);
      if (!row.reason.empty()) continue;
      row.possible = true;
      row.latency = Duration::microseconds(latency_of(s, collective, row.algorithm, p));
      row.rate = BytesPerSecond::gigabytes(rate_of(s, collective, row.algorithm, p));
      row.time = time_of(s, collective, row, bytes);
      count_channels(s, collective, bytes, row);
      row.slice = slice_of(s, collective, row, bytes);
      row.staging = staging_of(s, collective, row, bytes);
      if (best == nullptr || row.time < best->time) best = &row;
    }
  }
  if (best != nullptr) best->chosen = true;
  return all;
}

}  // namespace weft::tune::nccl
