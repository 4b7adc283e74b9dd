#include "plan/cost/reload.h"

#include <map>

#include "base/embedded.h"
#include "base/text.h"
#include "machine/catalog/catalog.h"
#include "plan/cost/access_costs.h"

namespace weft::cost {
namespace {

using topology::DeviceId;
using topology::DeviceKind;

// A CXL expander or a drive: its link is PCIe's.
bool below_processors(const topology::Topology& t, DeviceId memory) {
  const auto links = t.links_of(memory);
  return !links.empty() && t.link(links[0]).kind == topology::LinkKind::kPcie;
}

// Devices that the machine itself has of a part, in the first node.
std::vector<DeviceId> devices_of_part(const topology::Topology& t, const std::string& part) {
  std::vector<DeviceId> found;
  for (const DeviceId id : t.devices_of(DeviceKind::kMemory))
    if (t.device(id).model == part && t.device(id).node == 0) found.push_back(id);
  return found;
}

// The device of a kind in the node of a GPU that it reaches by the fastest and shortest path; below 0: none. Of kind
// memory: DRAM, not what hangs below the processors.
DeviceId nearest(const MachineView& machine, DeviceId gpu, DeviceKind kind) {
  const topology::Topology& t = machine.topology();
  DeviceId best = -1;
  topology::Path best_path;
  for (const DeviceId id : t.devices_of(kind)) {
    if (t.device(id).node != t.device(gpu).node) continue;
    if (kind == DeviceKind::kMemory && below_processors(t, id)) continue;
    topology::Path path = machine.routes().path(id, gpu);
    if (path.type == topology::PathType::kDis) continue;
    if (best >= 0 && std::tuple(path.type, path.hops.size()) >= std::tuple(best_path.type, best_path.hops.size()))
      continue;
    best = id;
    best_path = std::move(path);
  }
  return best;
}

std::string link_name(const topology::Topology& t, const topology::Link& link) {
  const auto end = [&](DeviceId id) {
    const topology::Device& d = t.device(id);
    return fmt::format("{}{}", name(d.kind), d.index);
  };
  return fmt::format("{} link {}-{}", name(link.kind), end(link.a), end(link.b));
}

double payload(const MachineView& machine, topology::PathType type) {
  const protocol::HopCost* hop = machine.costs().find(name(type), protocol::Protocol::kSimple);
  return hop == nullptr ? 1 : hop->efficiency;
}

// The bytes that cross each direction of each link, and the longest latency.
struct WireLoad {
  std::map<std::int64_t, double> wire_bytes;  // by 2 * link, + 1 from b to a
  Duration latency;

  void add(const topology::Path& path, double bytes, bool backwards) {
    for (const topology::Hop& hop : path.hops)
      wire_bytes[2 * std::int64_t{hop.link} + (hop.forward != backwards ? 0 : 1)] += bytes;
    latency = std::max(latency, path.latency);
  }
};

// The nearest device of a kind and the path from it. Errors (bad input): there is none.
Result<topology::Path> path_from(const MachineView& machine, DeviceKind kind, Rank rank) {
  const DeviceId gpu = machine.device(rank), from = nearest(machine, gpu, kind);
  if (from >= 0) return machine.routes().path(from, gpu);
  return bad_input("{}: no path from host {} to GPU {}", machine.topology().title,
                   kind == DeviceKind::kMemory ? "memory" : "processors", rank);
}

// The bytes that enter the buffer and leave it: the memory's own link carries both, whatever their direction.
Status add_buffer(WireLoad& load, const MachineView& machine, Rank rank, double bytes) {
  WEFT_TRY(const topology::Path path, path_from(machine, DeviceKind::kMemory, rank));
  if (path.hops.empty()) return {};
  const topology::Hop& memory = path.hops.front();
  load.wire_bytes[2 * std::int64_t{memory.link} + (memory.forward ? 0 : 1)] += 2 * bytes;
  return {};
}

constexpr Bytes kBuffer = Bytes{1} << 20;

}  // namespace

Result<Tier> parse_tier(const std::string& text) {
  if (text == "dram") return Tier{};
  Tier tier;
  const auto star = text.find('*');
  tier.part = text.substr(0, star);
  if (star != std::string::npos) {
    WEFT_TRY(const std::int64_t count, parse_integer("tier '" + text + "': count", text.substr(star + 1), 1, 1024));
    tier.count = static_cast<int>(count);
  }
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* part = catalog.find(tier.part);
  if (part == nullptr || part->kind != "memory" || part->figure("rate") == nullptr)
    return bad_input("tier '{}': dram, or a part of kind memory of `weft catalog`, e.g. nvme-gen5*4, cxl2-x8", text);
  return tier;
}

Result<Reload> reload(const MachineView& machine, const Tier& tier, Rank ranks, Bytes rank_bytes, TierWay way) {
  const topology::Topology& t = machine.topology();
  const Rank first = machine.ranks_of_node(0);
  if (ranks < 1 || ranks > first)
    return bad_input("{} ranks reload in one node; the first of this machine has {}", ranks, first);
  const bool from_dram = tier.part.empty();
  WireLoad load;
  const std::vector<DeviceId> own = devices_of_part(t, tier.part);
  if (!from_dram && !own.empty() && tier.count != 1 && static_cast<std::size_t>(tier.count) != own.size())
    return bad_input("{}*{}: {} has {} of them", tier.part, tier.count, t.title, own.size());
  for (Rank r = 0; r < ranks && !from_dram && !own.empty(); ++r)
    for (const DeviceId device : own) {
      const topology::Path path = machine.routes().path(device, machine.device(r));
      const double part = static_cast<double>(rank_bytes) / static_cast<double>(own.size());
      load.add(path, part / payload(machine, path.type), way.write);
      // The part's own rate is one of payload.
      const topology::Hop& first = path.hops.front();
      load.wire_bytes[2 * std::int64_t{first.link} + (first.forward != way.write ? 0 : 1)] -=
          part / payload(machine, path.type) - part;
      if (way.bounce)
        WEFT_CHECK(add_buffer(load, machine, r, static_cast<double>(rank_bytes) / static_cast<double>(own.size())));
    }
  for (Rank r = 0; r < ranks && (from_dram || own.empty()); ++r) {
    WEFT_TRY(const topology::Path path, path_from(machine, from_dram ? DeviceKind::kMemory : DeviceKind::kCpu, r));
    load.add(path, static_cast<double>(rank_bytes) / payload(machine, path.type), way.write);
    if (way.bounce && !from_dram) WEFT_CHECK(add_buffer(load, machine, r, static_cast<double>(rank_bytes)));
  }
  Reload answer;
  for (const auto& [direction, bytes] : load.wire_bytes) {
    const Duration time = Duration::seconds(bytes / machine.rate(direction).value());
    if (time <= answer.time) continue;
    answer.time = time;
    answer.bound = link_name(t, t.link(static_cast<topology::LinkId>(direction / 2)));
  }
  const int count = own.empty() ? tier.count : static_cast<int>(own.size());
  if (!from_dram) {
    WEFT_TRY(const auto catalog, topology::Catalog::shipped());
    const topology::Part& part = *catalog.find(tier.part);
    const topology::Figure* writing = way.write ? part.figure("write_rate") : nullptr;
    const BytesPerSecond rate = topology::rate_of(writing != nullptr ? *writing : *part.figure("rate")) * count;
    const Duration time = Bytes{ranks} * rank_bytes / rate;
    if (time > answer.time) answer = {.time = time, .latency = {}, .bound = fmt::format("{}*{}", tier.part, count)};
    if (const auto* latency = part.figure("latency"); latency != nullptr && own.empty())
      load.latency += topology::duration_of(*latency);
    if (way.bounce)
      load.latency += call_time(machine.costs().gpu()) + Bytes{ranks} * std::min(rank_bytes, kBuffer) / rate;
  }
  answer.latency = load.latency;
  answer.time += load.latency;
  return answer;
}

}  // namespace weft::cost
