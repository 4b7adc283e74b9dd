#include "plan/tune/nccl/symmetric.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weft::tune::nccl {
namespace {

using protocol::Protocol;

// NCCL's constants, in us and bytes per us; a GB/s is 2^30 bytes per second there.
constexpr double kGbps = (1 << 30) / 1e6;
constexpr int kMostBlocks = 64, kThreads = 512;
constexpr double kBytesOfLL = 9;  // per byte: twice the bytes, processing, loops that are not unrolled
constexpr double kTolerance = 1.025, kPerBlock = 0.025;

struct Kernel {
  Algorithm algorithm = Algorithm::kSymmetric;
  Protocol protocol = Protocol::kDirect;
  double bytes = 0, multiplier = 1;
  bool ll = false, multicast = false;
};

// A ceiling without a corner.
double softly_below(double x, double ceiling, double softness) {
  return ceiling - softness * std::log1p((std::exp(ceiling / softness) - 1) * std::exp(-x / softness));
}
double softly_above_0(double x) { return x >= 100 ? x : std::log1p(std::exp(x)); }

// `bytes`: of one rank's part in all_gather and reduce_scatter.
std::vector<Kernel> kernels_of(const System& s, Collective c, double bytes) {
  const double n = s.ranks;
  const bool sums_whole = c == Collective::kAllReduce;
  std::vector<Kernel> all{{Algorithm::kSymmetricLL, Protocol::kLL, n * bytes * kBytesOfLL, 1, true, false}};
  const bool multicasts = s.nvls.channels > 0 && s.ranks > 2;
  if (multicasts && c != Collective::kReduceScatter)
    all.push_back({Algorithm::kSymmetricLLMulticast, Protocol::kLL, n * bytes * kBytesOfLL, 1.1, true, false});
  all.push_back({Algorithm::kSymmetric, Protocol::kDirect, sums_whole ? 2 * bytes * (n - 1) / n : (n - 1) * bytes});
  if (multicasts)
    all.push_back({Algorithm::kSymmetricMulticast, Protocol::kSimple, sums_whole ? bytes / n + bytes : (n - 1) * bytes,
                   sums_whole ? n : 0.55 * n, false, true});
  return all;
}

struct Rates {
  double latency = 0, block = 0, peak = 0;
};
Rates rates_of(const System& s, Collective c, const Kernel& k) {
  const bool whole = c == Collective::kAllReduce;
  if (s.compute_capability < 100)
    return {k.ll ? 4.5 : 7.8, (whole ? 65 : 44) * kGbps, (whole && k.multicast ? 480 : 320) * kGbps};
  const double latency = k.ll ? (c == Collective::kAllGather ? 8.5 : 11) : (whole ? 19.5 : 13);
  return {latency, 55 * kGbps, (whole && k.multicast ? 1000 : 600) * kGbps};
}

double time_of(const Rates& r, const Kernel& k, int blocks) {
  const double rate = softly_below(blocks * r.block * k.multiplier, r.peak, r.block);
  return r.latency + softly_above_0(k.bytes / rate - 1);
}

}  // namespace

std::string why_not_symmetric(const System& s, Collective c) {
  if (c != Collective::kAllReduce && c != Collective::kAllGather && c != Collective::kReduceScatter)
    return "NCCL has no kernel for symmetric windows";
  if (s.release < 2703) return "NCCL has kernels for symmetric windows from 2.27 on";
  if (s.ranks < 2) return "one rank sends nothing";
  if (s.nodes > 1) return "weft knows these kernels within one NVLink domain only";
  if (!s.ring.nvlink) return "not all of its GPUs reach each other by NVLink";
  return {};
}

std::vector<Row> symmetric_rows(const System& s, Collective c, Bytes bytes) {
  WEFT_REQUIRE(why_not_symmetric(s, c).empty());
  const double part = static_cast<double>(bytes) / (c == Collective::kAllReduce ? 1 : s.ranks);
  const int most_multicast = ((s.compute_capability < 100 ? 16 : 32) + s.ranks - 1) / s.ranks;
  std::vector<Row> rows;
  double least = 0;
  Row* best = nullptr;
  const std::vector<Kernel> kernels = kernels_of(s, c, part);
  rows.reserve(kernels.size());
  for (const Kernel& k : kernels) {
    Row& row = rows.emplace_back(Row{.algorithm = k.algorithm, .protocol = k.protocol});
    if (k.ll && bytes >= Bytes{2} << 30) {
      row.reason = "LL kernels count in 32 bits";
      continue;
    }
    const Rates rates = rates_of(s, c, k);
    int blocks = k.multicast ? most_multicast : kMostBlocks;
    double time = time_of(rates, k, blocks);
    for (int fewer = 1; fewer < blocks; ++fewer)
      if (const double of = time_of(rates, k, fewer); of <= kTolerance * time) {
        time = of;
        blocks = fewer;
        break;
      }
    row.possible = true;
    row.latency = Duration::microseconds(rates.latency);
    row.rate = BytesPerSecond::gigabytes(static_cast<double>(bytes) / time / 1e3);
    row.time = Duration::microseconds(time);
    row.channels = blocks;
    row.threads = kThreads;
    const double weighed = time * (1 + kPerBlock * blocks);
    if (best == nullptr || weighed < least) {
      best = &row;
      least = weighed;
    }
  }
  if (best != nullptr) best->chosen = true;
  return rows;
}

}  // namespace weft::tune::nccl
