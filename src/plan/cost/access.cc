#include "plan/cost/access.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "machine/peer_access.h"
#include "plan/cost/access_costs.h"

namespace weft::cost {
namespace {

using protocol::Protocol;
using topology::PathType;

// The cost of reading at each of the two places.
struct Reading {
  const MachineView& machine;
  Duration here, there, call;  // one load, one load from the peer, the call of a get
  BytesPerSecond memory;       // GPUs: the reader's own, for reading
  BytesPerSecond link;         // the most that comes over the path

  // Time to read `touched` of `all` bytes, which lie in the reader's memory.
  Duration local(Bytes touched) const {
    return here + touched / (memory.value() > 0 ? memory : machine.level_of(touched, 1).rate);
  }
  Duration remote(Bytes touched) const {
    return there + touched / (memory.value() > 0 ? link : std::min(link, machine.level_of(touched, 1).rate));
  }
  // A CPU's core reads and writes what it copies; a GPU writes while the link delivers.
  Duration copy(Bytes all) const {
    const Duration written = memory.value() > 0 ? Duration() : all / machine.level_of(2 * all, 1).rate;
    return call + remote(all) + written;
  }
};

Result<Reading> reading_of(const MachineView& machine, Rank reader, const topology::Path& path) {
  const bool gpu = machine.costs().gpu();
  Reading r{.machine = machine,
            .here = load_latency(gpu, PathType::kLoc),
            .there = path.type == PathType::kNet ? path.latency * 2 : load_latency(gpu, path.type),
            .call = call_time(gpu),
            .memory = {},
            .link = path.rate};
  const Protocol protocol = path.type == PathType::kNet ? Protocol::kSimple : Protocol::kDirect;
  if (const protocol::HopCost* hop = machine.costs().find(name(path.type), protocol)) {
    r.link = r.link * hop->efficiency;
    if (path.type == PathType::kNet) r.call += hop->least;
  }
  if (!gpu) return r;
  WEFT_TRY(r.memory, read_rate(machine, reader));
  return r;
}

constexpr Bytes kMostBytes = Bytes{1} << 40;

// The blocks of a copy that a stream makes beside computation.
constexpr int kBlocks = 8;

// What of a copy in blocks, each with a call of its own, the work of the first use hides; the first block is waited
// for.
Duration hidden_by_work(Duration copy, Duration call, Duration use, Duration work) {
  if (work <= Duration()) return {};
  const Duration here = use + work, in_blocks = copy + call * (kBlocks - 1);
  const Duration beside = (in_blocks + here) * (1.0 / kBlocks) + std::max(in_blocks, here) * (1 - 1.0 / kBlocks);
  return std::max(Duration(), copy + here - beside);
}

void weigh(AccessAdvice& advice, const Reading& reading, const Access& access) {
  const auto touched = std::max<Bytes>(1, static_cast<Bytes>(static_cast<double>(access.bytes) * access.fraction));
  const auto again = static_cast<double>(access.reuse - 1);
  advice.use_there = reading.remote(touched);
  advice.copy = reading.copy(access.bytes);
  advice.use_here = reading.local(touched);
  advice.cached = touched <= access.cache;
  const Duration here = advice.use_here + access.work;
  advice.hidden = hidden_by_work(advice.copy, reading.call, advice.use_here, access.work);
  const Duration first = advice.copy + here - advice.hidden;
  const Duration later = advice.cached ? advice.use_here : advice.use_there;
  advice.pointer = advice.use_there + access.work + (later + access.work) * again;
  advice.get = first + here * again;
  advice.get_wins = !advice.pointer_possible || advice.get < advice.pointer;
}

// Get wins from this many uses on; empty: never.
std::optional<std::int64_t> from_uses(AccessAdvice once, const Reading& reading, Access access) {
  access.reuse = 1;
  weigh(once, reading, access);
  if (once.get_wins) return 1;
  const Duration saved = (once.cached ? once.use_here : once.use_there) - once.use_here;
  if (saved <= Duration()) return std::nullopt;
  return static_cast<std::int64_t>((once.get - once.pointer) / saved) + 2;
}

}  // namespace

std::string no_pointer(const MachineView& machine, Rank reader, Rank owner) {
  const topology::Path path = machine.path(reader, owner);
  if (path.type == PathType::kDis) return "no path";
  if (path.type == PathType::kNet) return "no loads across a network";
  const topology::DeviceId from = machine.device(reader), to = machine.device(owner);
  for (const topology::Hop& hop : path.hops) {
    const topology::Link& link = machine.topology().link(hop.link);
    const topology::DeviceId end = hop.forward ? link.b : link.a;
    if (end != to && machine.topology().device(end).kind == topology::DeviceKind::kGpu)
      return fmt::format("no loads through another GPU, {}", machine.topology().name_of(end));
  }
  if (!machine.costs().gpu() || path.type == PathType::kNvl || path.type == PathType::kLoc) return "";
  const auto peer = peer_access(machine.topology(), from, to, machine.routes().wire_path(from, to));
  return peer.possible ? "" : "no loads, " + peer.why;
}

Result<AccessAdvice> advise(const MachineView& machine, Rank reader, Rank owner, const Access& access) {
  const topology::Path path = machine.path(reader, owner);
  if (path.type == PathType::kDis) return bad_input("ranks {} and {} are not connected", reader, owner);
  WEFT_TRY(const Reading reading, reading_of(machine, reader, path));
  const auto size = machine.costs().gpu() ? memory_size(machine, owner) : Result<Bytes>(kMostBytes);
  if (size && access.bytes > *size)
    return bad_input("an array of {} is larger than the {} of rank {}, which has it", format_bytes(access.bytes),
                     format_bytes(*size), owner);
  AccessAdvice advice;
  advice.path = fmt::format("{}, {:.0f} GB/s", name(path.type), reading.link.gb());
  const std::string why_not = no_pointer(machine, reader, owner);
  advice.pointer_possible = why_not.empty();
  if (!why_not.empty()) advice.path += ": " + why_not;
  weigh(advice, reading, access);
  if (!advice.pointer_possible) return advice;
  advice.from_uses = from_uses(advice, reading, access);
  for (Bytes bytes = 1; bytes <= (size ? *size : kMostBytes) && !advice.from_bytes; bytes *= 2) {
    AccessAdvice at = advice;
    Access of = access;
    of.bytes = bytes;
    weigh(at, reading, of);
    if (at.get_wins) advice.from_bytes = bytes;
  }
  return advice;
}

namespace {

// The host's memory as a GPU reaches it: by the way to the nearest processor.
topology::Path host_path(const MachineView& machine, Rank reader) {
  const topology::Topology& t = machine.topology();
  topology::Path best;
  for (const topology::DeviceId id : t.devices_of(topology::DeviceKind::kCpu)) {
    if (t.device(id).node != t.device(machine.device(reader)).node) continue;
    topology::Path path = machine.routes().path(machine.device(reader), id);
    if (path.type < best.type || (path.type == best.type && path.latency < best.latency)) best = std::move(path);
  }
  return best;
}

// Every link between the GPU and its processor keeps caches coherent: chip-to-chip NVLink, Infinity Fabric.
bool coherent(const topology::Topology& t, const topology::Path& path) {
  return !path.hops.empty() &&
         std::ranges::all_of(path.hops, [&](const topology::Hop& hop) { return is_scale_up(t.link(hop.link).kind); });
}

// From this many uses on `before` and local uses are cheaper than loads; empty: never.
std::optional<std::int64_t> cheaper_from(Duration before, const UnifiedAdvice& a) {
  if (!a.fits) return std::nullopt;
  if (before + a.local < a.first) return 1;
  const Duration saved = a.again - a.local;
  if (saved <= Duration()) return std::nullopt;
  return static_cast<std::int64_t>((before + a.local - a.first) / saved) + 2;
}

}  // namespace

Result<UnifiedAdvice> advise_unified(const MachineView& machine, Rank reader, const Access& access, const Tier& tier) {
  if (!machine.costs().gpu())
    return bad_input("memory that the host manages is used by accelerators; {} has none", machine.topology().title);
  WEFT_TRY(const BytesPerSecond memory, read_rate(machine, reader));
  const topology::Path path = host_path(machine, reader);
  if (path.type == topology::PathType::kDis) return bad_input("rank {} reaches no processor", reader);
  const auto touched = std::max<Bytes>(1, static_cast<Bytes>(static_cast<double>(access.bytes) * access.fraction));
  UnifiedAdvice a{.path = {}, .coherent = coherent(machine.topology(), path)};
  WEFT_TRY(const Reload loaded, reload(machine, tier, 1, touched));
  WEFT_TRY(const Reload all, reload(machine, tier, 1, access.bytes));
  a.path = fmt::format("{}, {:.0f} GB/s, bound by {}", name(path.type),
                       static_cast<double>(access.bytes) / all.time.s() * 1e-9, all.bound);
  a.loads_possible = !tier.part.starts_with("nvme") && tier.part != "object-store";
  a.local = load_latency(true, topology::PathType::kLoc) + touched / memory;
  // The question's way there; over links that are not coherent a load takes at least what one of a line does.
  Duration question = loaded.latency + path.latency;
  if (!a.coherent) question = std::max(question, load_latency(true, path.type));
  a.first = loaded.time - loaded.latency + question;
  a.again = a.coherent && touched <= access.cache ? a.local : a.first;
  a.prefetch = call_time(true) + all.time;
  a.hidden = hidden_by_work(a.prefetch, call_time(true), a.local, access.work);
  if (const auto size = memory_size(machine, reader)) {
    a.card = *size;
    a.fits = touched <= a.card;
    if (!a.fits && !a.loads_possible)
      return bad_input("{} are more than the GPU's {}, and drives are not loaded from: use the array in parts",
                       format_bytes(touched), format_bytes(a.card));
  }

  // Lines of 128 bytes that are spread evenly touch nearly every leaf as soon as a leaf has one of them.
  const Paging paging = gpu_paging();
  constexpr double kLine = 128;
  const double lines = static_cast<double>(paging.leaf) / kLine;
  const double touches = access.fraction < 1 ? 1 - std::pow(1 - access.fraction, lines) : 1;
  const auto moved = std::max<Bytes>(1, static_cast<Bytes>(static_cast<double>(access.bytes) * touches));
  WEFT_TRY(const Reload paged, reload(machine, tier, 1, moved));
  const double blocks = std::max(1.0, static_cast<double>(moved) / static_cast<double>(paging.block));
  const int each = moved < paging.block ? 1 : paging.faults_per_block();
  a.faulting = paged.time + paging.fault * (std::ceil(blocks) * each);

  const auto uses = static_cast<double>(access.reuse);
  const Duration work = access.work * uses;
  a.total[0] = a.first + a.again * (uses - 1) + work;
  a.total[1] = a.faulting + a.local * uses + work;
  a.total[2] = a.prefetch - a.hidden + a.local * uses + work;
  a.best = !a.fits || (a.loads_possible && a.total[0] <= std::min(a.total[1], a.total[2])) ? UnifiedWay::kLoads
           : a.total[1] < a.total[2]                                                       ? UnifiedWay::kFaults
                                                                                           : UnifiedWay::kPrefetch;
  if (a.loads_possible) {
    a.prefetch_from_uses = cheaper_from(a.prefetch - a.hidden, a);
    a.faults_from_uses = cheaper_from(a.faulting, a);
  }
  return a;
}

FlagCosts flag_costs(const MachineView& machine, Rank reader, Rank with) {
  const bool gpu = machine.costs().gpu();
  const topology::Path path = with < 0 ? host_path(machine, reader) : machine.path(reader, with);
  FlagCosts f{.coherent = !gpu || (with < 0 && coherent(machine.topology(), path))};
  if (f.coherent) {
    f.look = load_latency(gpu, PathType::kLoc);
    f.seen = path.latency * 3;  // the line is taken away, asked for again, and comes
    f.fence = path.latency * 2;
    return f;
  }
  // A message across a network ends in the reader's own memory, where it polls.
  f.look = load_latency(true, path.type == PathType::kNet ? PathType::kLoc : path.type);
  f.seen = path.latency + f.look * 0.5;
  const protocol::HopCost* simple = machine.costs().find(name(path.type), Protocol::kSimple);
  if (simple != nullptr) f.fence = simple->fence > Duration() ? simple->fence : simple->least;
  return f;
}

}  // namespace weft::cost
