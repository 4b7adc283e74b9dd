#pragma once

#include <cstddef>

// The constants of NCCL's tuner. Facts read from NCCL 2.30.7, src/graph/tuning.cc and src/graph/topo.h (2026-06-11);
// times in us, bandwidths in GB/s. The last index is the protocol: LL, LL128, Simple. OfRelease holds what
// src/graph/tuning.cc and the numbers of NVLS channels differ in between 2.27.7, 2.28.9, 2.29.7 and 2.30.7. The search
// for graphs and the sizes of chunks are those of 2.30.7 for all.
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

// Constants that differ between releases.
inline constexpr int kOldestRelease = 27, kNewestRelease = 30;  // 2.27 …
struct OfRelease {
  // The next four hold for Blackwell, by 1, 2, more nodes.
  double ring_ll128[3], tree_ll128[3], tree[3], nvls_tree[3];
  double nvls_tree_hop;     // over the network
  bool nvls_by_efficiency;  // else NVLS moves 5/6 of the bandwidth that was found, and NVLSTree of half of it
  bool nvls_tree_factor;    // are NVLSTree's rates corrected as trees' are?
};
inline constexpr OfRelease kOfRelease[] = {
    {{73.4, 73.4, 73.4}, {73.4, 73.4, 58}, {77.4, 82.8, 72}, {0, 0, 0}, 14, false, false},
    {{73.4, 34.6, 73.4}, {55.6, 31.67, 20}, {70, 42.8, 24}, {0, 96, 43.8}, 20.9, true, false},
    {{40, 40, 40}, {55.6, 31.67, 20}, {70, 42.8, 24}, {0, 96, 43.8}, 20.9, true, true},
    {{40, 40, 40}, {55.6, 31.67, 20}, {70, 42.8, 24}, {0, 96, 80}, 20.9, true, true}};
inline constexpr const OfRelease& of_release(int release) { return kOfRelease[release - kOldestRelease]; }

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
