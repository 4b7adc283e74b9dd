#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cost/link_users.h"
#include "cost/machine_view.h"
#include "schedule/lower/lower.h"
#include "topology/switched_paths.h"

namespace weft::cost {

// Where a smaller job's ranks sit: every node has fewer, evenly spread. The default: all of them.
struct Spread {
  Rank per_node = 1, of = 1;  // so many of so many

  Rank place(Rank rank) const { return rank / per_node * of + rank % per_node * (of / per_node); }
};

// The story of one strand of a plan.
schedule::Story story_of(const schedule::Task& task, const schedule::Plan& plan, Rank rank, int lane, int channel);

// What a plan's channel 0 has of the machine while all channels are at work: every connection that the schedule opens,
// with links shared among those that are used at once. Seconds, as doubles: estimates add up small numbers.
// Thread: one at a time. All arguments must outlive it.
class Connections {
 public:
  struct Link {
    double latency = 0, overhead = 0, fence = 0, rate = 0;  // latency: after the sender is done with the message
  };
  // How a rank uses a group's switches, or all of the group does (kDown: what comes from switches that sum messages).
  enum class Way { kLoad, kStore, kUp, kDown };

  Connections(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, Spread spread)
      : machine_(machine), task_(task), plan_(plan), spread_(spread) {}

  // Opens every connection of every channel, and shares the links between them; before anything else.
  // Errors: kUnsupported (bad input) naming two ranks and why the protocol does not run between them.
  Status open_all();

  // Of channel 0.
  const Link& link(Rank from, Rank to, int lane) { return links_[key(from, to, lane)]; }
  const Link& link(Rank rank, const schedule::Operand& group, Way way, int lane) {
    return links_[key(rank, group, way, lane)];
  }
  // A rank posts its messages one after the other, whatever the channel: NCCL's proxy is a thread, a CPU rank a core.
  // All channels' messages for each of channel 0's. The same of those that it takes.
  double posting_share(Rank rank) const { return posts_.share(rank); }
  double taking_share(Rank rank) const { return takes_.share(rank); }

  // Names of connections; what comes from a group's switches to one of its members has one, too.
  static std::uint64_t key(Rank from, Rank to, int lane) {
    return static_cast<std::uint64_t>(from) << 36 | static_cast<std::uint64_t>(to) << 8 |
           static_cast<std::uint64_t>(lane);
  }
  std::uint64_t key(Rank rank, const schedule::Operand& group, Way way, int lane) {
    return key(way == Way::kDown ? group.peer : rank, name_of(group, way), lane);
  }
  std::uint64_t sum_key(Rank member, const schedule::Operand& group, int lane) {
    return key(name_of(group, Way::kDown), member, lane);
  }

 private:
  // A group's way counts as a rank beyond the last one.
  Rank name_of(const schedule::Operand& group, Way way) {
    const auto [at, added] =
        groups_.try_emplace({group.peer, group.count, group.stride}, static_cast<Rank>(groups_.size()));
    return task_.ranks + 4 * at->second + static_cast<Rank>(way);
  }
  topology::DeviceId device(Rank rank) const { return machine_.device(spread_.place(rank)); }
  std::optional<topology::Path> path_of(Rank rank, const schedule::Operand& group, Way way) const;
  void open_step(const schedule::Step& step, Rank rank, int lane, int channel);
  void open(Rank from, Rank to, int lane, int channel, int use);
  void open_way(Rank rank, const schedule::Operand& group, Way way, int lane, int channel);
  void use_links(const topology::Path& path);
  void keep(std::uint64_t connection, const topology::Path& path, const protocol::HopCost& cost, bool shares);

  // Connections that keep a rank busy with each message: of all channels, and of the first.
  class Busy {
   public:
    void count(Rank rank, int channel) {
      auto& [all, of_first] = by_rank_[rank];
      ++all;
      if (channel == 0) ++of_first;
    }
    double share(Rank rank) const {
      const auto found = by_rank_.find(rank);
      if (found == by_rank_.end() || found->second.second == 0) return 1;
      return static_cast<double>(found->second.first) / found->second.second;
    }

   private:
    std::unordered_map<Rank, std::pair<int, int>> by_rank_;
  };

  const MachineView& machine_;
  const schedule::Task& task_;
  const schedule::Plan& plan_;
  Spread spread_;
  std::unordered_map<std::uint64_t, Link> links_;        // of channel 0
  std::map<std::tuple<Rank, Rank, Rank>, Rank> groups_;  // numbered
  Busy posts_, takes_;
  // While connections are opened.
  static constexpr int kSignals = 1, kStores = 2, kLoads = 4;
  std::unordered_map<std::uint64_t, int> opened_;  // what for
  std::pair<std::uint64_t, int> last_opened_{~std::uint64_t{0}, 0};
  LinkUsers users_;
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> hops_;
  std::unordered_map<std::uint64_t, topology::Path> paths_;
  std::unordered_map<std::uint64_t, std::optional<topology::Path>> ways_;  // of all channels
  std::unordered_map<std::uint64_t, double> efficiency_;
  std::optional<Error> failure_;
};

}  // namespace weft::cost
