#pragma once

#include <array>
#include <cstddef>

// The constants of NCCL's tuner. Facts read from NCCL 2.30.7, src/graph/tuning.cc and src/graph/topo.h (2026-06-11);
// times in us, bandwidths in GB/s. The last index is the protocol: LL, LL128, Simple. OfRelease holds what
// src/graph/tuning.cc, src/enqueue.cc (sends) and the numbers of NVLS channels differ in from 2.19.4 on, read from the
// tags of all releases (2026-06). The search for graphs and the sizes of chunks are those of 2.30.7 for all.
namespace weft::tune::nccl {

// [algorithm][protocol]: tree, ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT.
inline constexpr double kBaseLatency[7][3] = {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, {}, {}, {}, {}, {8.0, 8.0, 8.0}};

enum Hardware { kNvlink, kPci, kNet };
// [hardware][algorithm][protocol]
inline constexpr double kHopLatency[3][7][3] = {
    {{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 25}, {0, 0, 25}, {0, 0, 4.0}},
    {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {}, {}, {0, 0, 4.0}},
    {{5.0, 8.5, 14}, {2.7, 4.0, 14.0}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}}};

// [Volta, Ampere, Hopper, Blackwell][1, 2, more nodes]
inline constexpr double kMostLL[4][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
// The same; Blackwell's are those of a release, see OfRelease.
inline constexpr double kMostRingLL128[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}};
inline constexpr double kMostTreeLL128[3][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}};
inline constexpr double kMostTree[3][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}};
inline constexpr double kMostNvlsTree[3][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}};
inline constexpr double kNvlsEfficiency[4] = {0, 0, 0.85, 0.74};

// What differs between releases.
struct OfRelease {
  int from;  // this release on: minor * 100 + patch
  // The next four hold for Blackwell, by 1, 2, more nodes.
  double ring_ll128[3], tree_ll128[3], tree[3], nvls_tree[3];
  double most_ll_hopper, most_ll_blackwell;  // within a node
  double nvls_hop;                           // within a node
  double nvls_tree_hop;                      // over the network
  double pat;                                // of the bandwidth that was found; 0: there is no PAT
  bool nvls_by_efficiency;  // else NVLS moves 5/6 of the bandwidth that was found, and NVLSTree of half of it
  bool nvls_tree_factor;    // are NVLSTree's rates corrected as trees' are?
  bool nvls_parts;          // NVLS moves less where every rank has a part of its own
  bool parts_scaled;        // the 5/6 of NVLS also where every rank has a part of its own
  bool slow_trees;          // hops of Simple on trees take 28 us
  bool lone_ranks;          // one rank per node has the network latency of trees, else 0.7 instead of 0.92 of LL128
  bool ll_of_thirds;        // rings of LL move a third, or a quarter, of the bandwidth, not half
  bool collnet_parts;       // CollNetDirect serves all_gather and reduce_scatter
  bool ll_by_peer;          // sends: LL up to 16 KiB for every channel of a peer, not for every one that is used
};
inline constexpr auto kOfRelease = [] {
  std::array<OfRelease, 13> all{};
  std::size_t n = 0;
  // 2.19: Blackwell is not known and has Hopper's numbers.
  OfRelease r{.from = 1900,
              .ring_ll128 = {36.7, 36.7, 36.7},
              .tree_ll128 = {36.7, 36.7, 29},
              .tree = {38.7, 41.4, 36},
              .nvls_tree = {},
              .most_ll_hopper = 87.7,
              .most_ll_blackwell = 87.7,
              .nvls_hop = 23,
              .nvls_tree_hop = 14,
              .pat = 0,
              .nvls_by_efficiency = false,
              .nvls_tree_factor = false,
              .nvls_parts = false,
              .parts_scaled = true,
              .slow_trees = true,
              .lone_ranks = false,
              .ll_of_thirds = true,
              .collnet_parts = false,
              .ll_by_peer = false};
  const auto keep = [&](int next) {
    all[n++] = r;
    r.from = next;
  };
  keep(2000);
  r.collnet_parts = true;
  keep(2100);
  r.most_ll_hopper = r.most_ll_blackwell = 141;
  r.nvls_hop = 25;
  r.ll_of_thirds = false;
  keep(2200);
  r.ll_by_peer = true;
  keep(2300);
  r.pat = 0.85;
  r.parts_scaled = r.slow_trees = false;
  r.lone_ranks = true;
  keep(2400);
  r.pat = 0.75;
  keep(2500);
  r.most_ll_blackwell = 282;
  for (double* of : {r.ring_ll128, r.tree_ll128, r.tree})
    for (int i = 0; i < 3; ++i) of[i] *= 2;
  keep(2700);
  r.nvls_parts = true;
  keep(2800);
  r.ring_ll128[1] = 34.6;
  for (int i = 0; i < 3; ++i) {
    r.tree_ll128[i] = std::array{55.6, 31.67, 20.0}[static_cast<std::size_t>(i)];
    r.tree[i] = std::array{70.0, 42.8, 24.0}[static_cast<std::size_t>(i)];
    r.nvls_tree[i] = std::array{0.0, 96.0, 43.8}[static_cast<std::size_t>(i)];
  }
  r.nvls_tree_hop = 20.9;
  r.nvls_by_efficiency = true;
  keep(2900);
  r.ring_ll128[0] = r.ring_ll128[2] = 34.5;
  r.nvls_tree_factor = true;
  r.ll_by_peer = false;
  keep(2907);
  for (double& rate : r.ring_ll128) rate = 40;
  keep(3000);
  r.nvls_tree[2] = 80;
  keep(0);
  return all;
}();
inline constexpr int kReleases[] = {1904, 2005, 2105, 2203, 2304, 2403, 2501, 2606, 2707, 2809, 2907, 3007};
inline constexpr const OfRelease& of_release(int release) {
  const OfRelease* found = kOfRelease.data();
  for (const OfRelease& r : kOfRelease)
    if (r.from > 0 && r.from <= release) found = &r;
  return *found;
}

// Factors of a tree all_reduce's bandwidth, by log2(bytes / 64).
inline constexpr std::size_t kTreeSizes = 23;
inline constexpr double kTreeFactor[3][kTreeSizes + 1] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

// What a channel may carry in the search for graphs, GB/s, the fastest first.
inline constexpr double kIntraSpeeds[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
inline constexpr double kInterSpeeds[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12};
inline constexpr double kIntraSpeeds90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
inline constexpr double kInterSpeeds90[] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};
inline constexpr double kIntraSpeeds100[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
inline constexpr double kInterSpeeds100[] = {96, 86,   80, 48, 45.1, 42, 40,  30,  24,  22,
                                             20, 17.5, 15, 12, 6,    3,  2.4, 1.2, .24, .12};
// Warps of a block that go through NVLS: those that sum, of up to 6 GPUs and of more; the rest copies, half of it into
// NCCL's buffers, half out of them. src/device/all_reduce.h.
inline constexpr int kNvlsWarps = 20, kNvlsSummingOfFew = 7, kNvlsSumming = 5;
// The rate at which a multiprocessor copies with all its warps: smBw of src/sym_kernels.cc.
inline constexpr double kCopyRate = 65;

inline constexpr int kMostChannels = 64, kMostSearched = 32;

// One NVLink, GB/s, of GPUs with at least this compute capability (86 has its own).
inline constexpr double nvlink_rate(int sm) {
  return sm >= 100 ? 40.1 : sm >= 90 ? 20.6 : sm == 86 ? 12.0 : sm >= 70 ? 20.0 : 18.0;
}

}  // namespace weft::tune::nccl
