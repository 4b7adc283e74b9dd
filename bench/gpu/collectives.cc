#include "bench/gpu/commands.h"
#include "bench/gpu/ranks.h"
#include "exec/device/flatten.h"
#include "plan/collectives/registry.h"

namespace weft::gpu {
namespace {

using protocol::Protocol;

struct Best {
  double microseconds = 0;  // 0: none yet
  std::string way;
};

// What must be read from and written to memory, whatever the algorithm: every input once, every output once. A rank's
// input or output is the whole message or its part of it, see bench/gpu/README.md.
double traffic(Collective collective, Rank ranks, double bytes) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (1.0 + ranks) * bytes;
    default:
      return 2.0 * ranks * bytes;
  }
}

int calls_for(Bytes bytes) { return bytes <= 1 << 20 ? 50 : 10; }

Status try_way(Ranks& ranks, const schedule::Task& task, const schedule::Algorithm& algorithm, Protocol protocol,
               int channels, Best& best) {
  const auto plan = make_plan(task, algorithm, protocol, channels, exec::device::capabilities(ranks.geometry()), true);
  if (const auto cut = schedule::cut_of(task, plan); cut.piece == 0 || cut.round == 0) return {};
  const std::string way = fmt::format("{} {} x{}", algorithm.name, protocol::traits(protocol).name, channels);
  doing(fmt::format("{} of {} elements by {}", schedule::name(task.collective), task.elements, way));
  if (const Status ready = ranks.prepare(task, plan, DataType::kFloat32, ReduceOp::kSum); !ready)
    return ready.error().code == Code::kUnsupported ? Status() : ready;
  auto timed = ranks.time(calls_for(task.elements * task.element_bytes));
  if (!timed) {
    timed.error().message += " by " + way;
    return tl::make_unexpected(timed.error());
  }
  const double microseconds = *timed;
  if (best.microseconds == 0 || microseconds < best.microseconds) best = {microseconds, way};
  return {};
}

// Loads and stores by every algorithm that uses them; messages by rings, which need the least memory traffic of them.
// `best`: also where a later way fails.
Status best_of(Ranks& ranks, const schedule::Task& task, Best& best) {
  const Bytes bytes = task.elements * task.element_bytes;
  for (const schedule::Algorithm* algorithm : collectives::algorithms_for(task.collective)) {
    if (algorithm->needs.multicast || algorithm->needs.aggregation) continue;
    const bool direct = schedule::fits(*algorithm, Protocol::kDirect);
    if (!direct && algorithm->name != "ring") continue;
    for (const Protocol protocol : {Protocol::kDirect, Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
      if (!schedule::fits(*algorithm, protocol)) continue;
      if ((protocol == Protocol::kLL && bytes > 1 << 18) || (protocol == Protocol::kSimple && bytes < 1 << 14))
        continue;
      const int most = ranks.geometry().strands / std::max(algorithm->connections_of_channel(), algorithm->lanes);
      for (int channels = most; channels >= 1; channels /= 4)
        if (channels == 1 || bytes / channels >= 4096)
          WEFT_CHECK(try_way(ranks, task, *algorithm, protocol, channels, best));
    }
  }
  return {};
}

}  // namespace

Status collectives(const Options& options) {
  const Rank n = options.ranks;
  WEFT_TRY(const double rate, copy_rate());
  WEFT_TRY(const int strands, strands_for(n, options.threads));
  const exec::device::Geometry geometry{
      .ranks = n, .strands = strands, .slot_bytes = 256 << 10, .line_slot_bytes = 64 << 10, .scratch_bytes = 4 << 20};
  WEFT_TRY(auto ranks, Ranks::open(geometry, options));
  fmt::print("# {} ranks, {} strands of {} threads each; copy within memory {:.0f} GB/s read and written\n", n, strands,
             options.threads, rate / 1e9);
  fmt::print("# collective        size (B)   time (us)    busbw   bound (us)  %bound  way\n");
  constexpr int kMostGaveUp = 3;
  int gave_up = 0;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll})
    for (Bytes bytes = 8L * n; bytes <= options.most_bytes; bytes *= 32) {
      const schedule::Task task{
          .collective = collective, .ranks = n, .ranks_per_node = n, .elements = bytes / 4, .element_bytes = 4};
      Best best;
      if (const Status done = best_of(*ranks, task, best); !done) {
        if (done.error().code != Code::kTimeout || ++gave_up == kMostGaveUp) return done;
        fmt::print("{:<16} {:>11}  {}\n", schedule::name(collective), bytes, done.error().message);
        WEFT_TRY(ranks, Ranks::open(geometry, options));  // the old ones have given up for good
      }
      if (best.microseconds == 0) continue;
      const double bound = traffic(collective, n, static_cast<double>(bytes)) / rate * 1e6;
      fmt::print("{:<16} {:>11} {:>11.2f} {:>8.2f} {:>12.2f} {:>6.0f}%  {}\n", schedule::name(collective), bytes,
                 best.microseconds,
                 static_cast<double>(bytes) / best.microseconds / 1e3 * schedule::bus_factor(collective, n), bound,
                 100 * bound / best.microseconds, best.way);
    }
  return gave_up == 0 ? Status() : failure(Code::kTimeout, Blame::kOperation, "{} ways gave up", gave_up);
}

}  // namespace weft::gpu
