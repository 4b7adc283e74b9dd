#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "machine/switched_paths.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/step.h"

namespace weft::cost {

// Of paths, connections, link directions: from 0, as they were met.
using Number = std::uint32_t;

// Where a smaller job's ranks sit: every node has fewer, evenly spread. The default: all of them.
struct Spread {
  Rank per_node = 1, of = 1;  // the job's ranks on a node, and the node's places
  bool sound = false;         // on fewer nodes than there are: those of the most frequent class first

  Rank place(Rank rank) const { return rank / per_node * of + rank % per_node * (of / per_node); }
  auto operator<=>(const Spread&) const = default;
};

// How a rank uses a group's switches, or all of the group does (kDown: what comes from switches that sum messages).
enum class Way { kLoad, kStore, kUp, kDown };

// The properties on which a path's costs depend under every protocol.
struct PathKind {
  topology::PathType type = topology::PathType::kDis;
  bool by_switch = false;  // that sums or copies

  static constexpr std::size_t kCount = 2 * (static_cast<std::size_t>(topology::PathType::kDis) + 1);
  std::size_t index() const { return 2 * static_cast<std::size_t>(type) + (by_switch ? 1 : 0); }
  // Null: the protocol does not run on such paths.
  const protocol::HopCost* cost(const protocol::HopCosts& costs, protocol::Protocol protocol) const {
    return by_switch ? costs.through_switch(name(type), protocol) : costs.find(name(type), protocol);
  }
};

// The paths of a job on a machine, each found once and numbered.
// Thread: one at a time. The machine must outlive it.
class Paths {
 public:
  struct Path {
    PathKind kind;
    bool of_group = false;
    Rank from = 0, to = 0;  // of a group: its first and last member
    Duration latency;
    Number first = 0, hops = 0;
  };

  Paths(const MachineView& machine, Spread spread) : machine_(machine), spread_(spread) {}

  // Kind kDis: there is none.
  Number between(Rank from, Rank to);
  // A rank's way to a group's switches or from them; kind kDis: there are none that sum. Without `by_switch` ranks do
  // their work, and the way is that to another member.
  Number of_group(Rank rank, const schedule::Operand& group, Way way, bool by_switch);

  const Path& operator[](Number path) const { return paths_[path]; }
  // Link directions that a path crosses.
  std::span<const Number> hops(const Path& path) const { return std::span(hops_).subspan(path.first, path.hops); }
  // The directions' numbers: 2 * link of the topology, + 1 from b to a.
  std::span<const std::int64_t> directions() const { return directions_; }

  Number group(const schedule::Operand& o);  // numbered
  std::int32_t node(Rank rank) const { return machine_.topology().device(device(rank)).node; }

 private:
  topology::DeviceId device(Rank rank) const {
    const Rank place = spread_.place(rank);
    return machine_.device(spread_.sound ? machine_.sound_rank(place) : place);
  }
  topology::Path find(Rank rank, const schedule::Operand& group, Way way, bool by_switch) const;
  Number keep(const topology::Path& path, Path about);

  const MachineView& machine_;
  Spread spread_;
  std::vector<Path> paths_;
  std::vector<Number> hops_;
  std::vector<std::int64_t> directions_;
  std::unordered_map<std::int64_t, Number> by_direction_;
  std::unordered_map<std::uint64_t, Number> by_ends_;
  std::map<std::tuple<Rank, Rank, Rank>, Number> groups_;
  std::map<std::tuple<Rank, Number, Way>, Number> ways_;
};

}  // namespace weft::cost
