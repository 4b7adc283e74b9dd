#include "cost/estimate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "cost/link_users.h"
#include "topology/switched_paths.h"

namespace weft::cost {
namespace {

using protocol::Protocol;
using schedule::Operand;
using schedule::Plan;
using schedule::Step;
using schedule::Task;

constexpr std::int64_t kWalkBudget = 8000;  // steps of channel 0: about a millisecond
constexpr int kWalkedRounds = 3;
constexpr Rank kSmallestWalk = 2;                 // nodes: walks of 2, 4 and 8 stand for more
constexpr std::int64_t kWholeNodeBudget = 50000;  // steps, before nodes of many ranks are made smaller, …
constexpr Rank kMostRanks = 64;                   // … so that so many ranks are walked at the most

std::uint64_t pair_key(Rank from, Rank to, int lane) {
  return static_cast<std::uint64_t>(from) << 36 | static_cast<std::uint64_t>(to) << 8 |
         static_cast<std::uint64_t>(lane);
}

bool through_group(const Operand& o) {
  return o.kind == Operand::Kind::kMulticast || o.kind == Operand::Kind::kAggregation;
}

std::int64_t steps_of(const Task& task, const Plan& plan, Rank rank) {
  std::int64_t n = 0;
  for (int lane = 0; lane < plan.algorithm->lanes; ++lane) {
    auto steps = plan.algorithm->steps({.rank = rank,
                                        .ranks = task.ranks,
                                        .root = task.root,
                                        .ranks_per_node = task.ranks_per_node,
                                        .lane = lane,
                                        .staged = plan.staged});
    while (steps.next() != nullptr) ++n;
  }
  return n;
}

// Where a smaller job's ranks sit: every node has fewer, evenly spread. The default: all of them.
struct Spread {
  Rank per_node = 1, of = 1;  // so many of so many

  Rank place(Rank rank) const { return rank / per_node * of + rank % per_node * (of / per_node); }
};

// Seconds, as doubles: the walk adds up small numbers.
class Walk {
 public:
  Walk(const MachineView& machine, const Task& task, const Plan& plan, Spread spread)
      : machine_(machine), task_(task), plan_(plan), spread_(spread) {}

  Result<double> run(bool empty_messages) {
    empty_ = empty_messages;
    measure_pieces();
    if (links_.empty()) count_connections();
    if (failure_) return tl::make_unexpected(*failure_);
    strands_.clear();
    messages_.clear();
    signals_.clear();
    own_signals_.clear();
    parts_.clear();
    core_free_.assign(static_cast<std::size_t>(task_.ranks), 0);
    for (Rank r = 0; r < task_.ranks; ++r)
      for (int lane = 0; lane < plan_.algorithm->lanes; ++lane) strands_.push_back(Strand{.rank = r, .lane = lane});
    const double rounds = std::max(rounds_, piece_ > 0 ? 1.0 : 0.0);
    const int walked = std::min(kWalkedRounds, static_cast<int>(std::ceil(rounds)));
    std::vector<double> ends;
    for (int round = 0; round < walked; ++round) ends.push_back(walk_round());
    if (ends.empty()) return 0;
    const double last = ends.size() > 1 ? ends.back() - ends[ends.size() - 2] : ends.back();
    return ends.back() + (rounds - walked) * last;
  }

 private:
  struct Stream {
    double first, last;  // when the first and the last slice are there
  };
  struct Strand {
    Rank rank;
    int lane;
    double free = 0;  // when the strand can start its next step
    Generator<Step> steps = {};
    const Step* step = nullptr;
  };
  struct Link {
    double latency = 0, overhead = 0, fence = 0, rate = 0;  // latency: after the sender is done with the message
  };

  schedule::Story story(Rank rank, int lane, int channel) const {
    return {.rank = rank,
            .ranks = task_.ranks,
            .root = task_.root,
            .ranks_per_node = task_.ranks_per_node,
            .channel = channel,
            .lane = lane,
            .staged = plan_.staged,
            .rings = plan_.rings.get()};
  }

  topology::DeviceId device(Rank rank) const { return machine_.device(spread_.place(rank)); }

  // How much of a chunk one round of channel 0 moves, and how many rounds there are.
  void measure_pieces() {
    const schedule::Cut cut = schedule::cut_of(task_, plan_);
    piece_ = static_cast<double>(std::min(cut.piece, cut.round));
    rounds_ = cut.round > 0 ? static_cast<double>(cut.piece) / static_cast<double>(cut.round) : 0;
    slices_ = cut.slice > 0 ? std::max(1.0, std::ceil(piece_ / static_cast<double>(cut.slice))) : 1;
  }

  // Opens every connection of every channel, and shares the links between them.
  void count_connections() {
    LinkUsers users;
    std::unordered_map<std::uint64_t, std::vector<std::int64_t>> hops;
    std::unordered_map<std::uint64_t, topology::Path> paths;
    const int lanes = plan_.algorithm->lanes;
    for (int channel = 0; channel < plan_.channels && !failure_; ++channel) {
      for (Rank r = 0; r < task_.ranks; ++r) {
        for (int lane = 0; lane < lanes; ++lane) {
          auto steps = plan_.algorithm->steps(story(r, lane, channel));
          users.begin_strand();
          while (const Step* step = steps.next()) {
            if (step->kind != Step::Kind::kMove && step->lane == Operand::kSameLane)
              open(r, step->peer, lane, channel, false, users, hops, paths);
            for (const Operand& o : step->sources) {
              if (o.kind == Operand::Kind::kRemote) open(o.peer, r, lane, channel, true, users, hops, paths, true);
              if (o.kind == Operand::Kind::kMulticast) open_way(r, o, Way::kLoad, lane, channel, users, hops);
            }
            for (const Operand& o : step->destinations) {
              const int to_lane = o.lane == Operand::kSameLane ? lane : o.lane;
              if (o.kind == Operand::Kind::kMulticast) open_way(r, o, Way::kStore, lane, channel, users, hops);
              if (o.kind == Operand::Kind::kAggregation) {
                open_way(r, o, Way::kUp, to_lane, channel, users, hops);
                if (r == o.peer) open_way(r, o, Way::kDown, to_lane, channel, users, hops);
              }
              if (o.kind == Operand::Kind::kMessage || o.kind == Operand::Kind::kRemote)
                open(r, o.peer, to_lane, channel, true, users, hops, paths);
            }
            users.end_step(*step);
          }
        }
      }
    }
    for (auto& [key, link] : links_) {
      for (const std::int64_t h : hops[key])
        link.rate = std::min(link.rate, machine_.rate(h).value() * efficiency_[key] / users.most(h));
    }
  }

  // How a rank uses a group's switches, or all of the group does (kDown: what comes from switches that sum messages).
  enum class Way { kLoad, kStore, kUp, kDown };
  std::uint64_t way_key(Rank rank, const Operand& group, Way way, int lane) {
    const auto [at, added] =
        groups_.try_emplace({group.peer, group.count, group.stride}, static_cast<Rank>(groups_.size()));
    return pair_key(way == Way::kDown ? group.peer : rank, task_.ranks + 4 * at->second + static_cast<Rank>(way), lane);
  }

  std::optional<topology::Path> path_of(Rank rank, const Operand& o, Way way) const {
    std::vector<topology::DeviceId> members;
    for (Rank i = 0; i < o.count; ++i) members.push_back(device(o.group().member(i)));
    const topology::Topology& topology = machine_.topology();
    const topology::Routes& routes = machine_.routes();
    switch (way) {
      case Way::kLoad:
        return topology::reduced_path(topology, routes, members, device(rank));
      case Way::kStore:
        return topology::multicast_path(topology, routes, members, device(rank));
      case Way::kUp:
        return topology::path_into_switch(topology, routes, members, device(rank));
      case Way::kDown:
        return topology::path_from_switches(topology, routes, members);
    }
    return std::nullopt;
  }

  void open_way(Rank rank, const Operand& o, Way way, int lane, int channel, LinkUsers& users,
                std::unordered_map<std::uint64_t, std::vector<std::int64_t>>& hops) {
    const std::uint64_t key = way_key(rank, o, way, channel * plan_.algorithm->lanes + lane);
    if (int& known = opened_[key]; std::exchange(known, kStores) != 0) return;
    const bool by_switch = (o.kind == Operand::Kind::kMulticast ? plan_.multicast : plan_.aggregation) && o.count > 1;
    const auto path =
        by_switch ? path_of(rank, o, way) : machine_.routes().path(device(rank), device(other_member(rank, o)));
    const std::string_view type = path ? name(path->type) : "";
    const protocol::HopCost* cost =
        by_switch ? machine_.costs().through_switch(type, plan_.protocol) : machine_.costs().find(type, plan_.protocol);
    if (!path || (cost == nullptr && o.count > 1)) {
      failure_ = Error{Code::kUnsupported, Blame::kInput,
                       fmt::format("{} does not run through switches that sum between ranks {} and {}{}",
                                   protocol::traits(plan_.protocol).name, o.peer, o.group().member(o.count - 1),
                                   path ? "" : ": there are none on the way")};
      return;
    }
    const bool shares = machine_.costs().gpu() && o.count > 1;
    if (shares)
      for (const topology::Hop& h : path->hops) users.add(2 * h.link + (h.forward ? 0 : 1));
    if (way == Way::kUp && cost != nullptr && cost->overhead > Duration()) count_post(rank, channel);
    if (channel > 0) return;
    if (o.count == 1) {
      const double local = machine_.costs().local_channel().value();  // zero: bounded by its links only
      links_[key] = {.rate = local > 0 ? local : HUGE_VAL};
      return;
    }
    const Duration latency = machine_.costs().latency(*cost, path->latency, machine_.sharing(task_.ranks));
    links_[key] = {.latency = std::max(0.0, (latency - cost->overhead).s()),
                   .overhead = cost->overhead.s(),
                   .fence = cost->fence.s(),
                   .rate = cost->channel.value()};
    efficiency_[key] = cost->efficiency;
    if (shares)
      for (const topology::Hop& h : path->hops) hops[key].push_back(2 * h.link + (h.forward ? 0 : 1));
  }

  static Rank other_member(Rank rank, const Operand& o) {
    return o.count == 1 || o.peer != rank ? o.peer : o.group().member(1);
  }

  // `carries`: data, not only signals. `loads`: `to` fetches it, which shares links with what `from` sends there
  // itself.
  void open(Rank from, Rank to, int lane, int channel, bool carries, LinkUsers& users,
            std::unordered_map<std::uint64_t, std::vector<std::int64_t>>& hops,
            std::unordered_map<std::uint64_t, topology::Path>& paths, bool loads = false) {
    const std::uint64_t key = pair_key(from, to, channel * plan_.algorithm->lanes + lane);
    const int use = loads ? kLoads : carries ? kStores : kSignals;
    if (key == last_opened_.first && use == last_opened_.second)
      return;  // a strand's next step mostly has the same peer
    last_opened_ = {key, use};
    int& known = opened_[key];
    if ((known & use) != 0) return;
    known |= use;
    auto [path, added] = paths.try_emplace(pair_key(from, to, 0));
    if (added) path->second = machine_.routes().path(device(from), device(to));
    const protocol::HopCost* cost = machine_.costs().find(name(path->second.type), plan_.protocol);
    if (cost == nullptr) {
      failure_ = Error{Code::kUnsupported, Blame::kInput,
                       fmt::format("{} does not run from rank {} to rank {}: a {} path",
                                   protocol::traits(plan_.protocol).name, from, to, name(path->second.type))};
      return;
    }
    if (carries && machine_.costs().gpu())
      for (const topology::Hop& h : path->second.hops) users.add(2 * h.link + (h.forward ? 0 : 1));
    if (carries && cost->overhead > Duration()) count_post(from, channel);
    if (channel > 0 || links_.contains(key)) return;
    const Duration latency =
        machine_.costs().latency(*cost, path->second.latency, machine_.sharing(task_.ranks)) - cost->overhead;
    links_[key] = {.latency = latency.s(),
                   .overhead = cost->overhead.s(),
                   .fence = cost->fence.s(),
                   .rate = cost->channel.value()};
    efficiency_[key] = cost->efficiency;
    if (machine_.costs().gpu())
      for (const topology::Hop& h : path->second.hops) hops[key].push_back(2 * h.link + (h.forward ? 0 : 1));
  }

  // Runs every strand through its story once more; returns when the last one ends.
  double walk_round() {
    for (Strand& s : strands_) {
      s.steps = plan_.algorithm->steps(story(s.rank, s.lane, 0));
      s.step = s.steps.next();
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Strand& s : strands_)
        while (s.step != nullptr && take(s)) {
          s.step = s.steps.next();
          moved = true;
        }
    }
    double end = 0;
    for (const Strand& s : strands_) {
      WEFT_ASSERT(s.step == nullptr, "{} on {} ranks is stuck", plan_.algorithm->name, task_.ranks);
      end = std::max(end, s.free);
    }
    return end;
  }

  // One more part for the group's switches; with the last one the sum goes to every member.
  void send_part(Rank rank, const Operand& o, int lane, Stream part) {
    const std::uint64_t group = way_key(rank, o, Way::kDown, lane);
    auto& parts = parts_[group];
    parts.resize(static_cast<std::size_t>(o.count));
    parts[static_cast<std::size_t>((rank - o.peer) / o.stride)].push_back(part);
    if (std::ranges::any_of(parts, [](const auto& queue) { return queue.empty(); })) return;
    Stream sum{0, 0};
    for (auto& queue : parts) {
      sum = {std::max(sum.first, queue.front().first), std::max(sum.last, queue.front().last)};
      queue.pop_front();
    }
    const Link& down = links_[group];
    const double whole = empty_ ? 0 : wire_piece() / down.rate, slice = whole / slices_;
    sum = {sum.first + slice + down.latency, std::max(sum.first + whole, sum.last + slice) + down.latency};
    for (Rank i = 0; i < o.count; ++i) messages_[sum_key(o.group().member(i), o, lane)].push_back(sum);
  }
  // The queue of the sums that come to a rank.
  std::uint64_t sum_key(Rank rank, const Operand& o, int lane) {
    return pair_key(task_.ranks + 4 * groups_.at({o.peer, o.count, o.stride}) + static_cast<Rank>(Way::kDown), rank,
                    lane);
  }
  std::uint64_t queue_of(const Operand& o, const Strand& s) {
    return o.kind == Operand::Kind::kMessage ? pair_key(o.peer, s.rank, lane_of(o, s))
                                             : sum_key(s.rank, o, lane_of(o, s));
  }
  static bool comes_in(const Operand& o) {
    return o.kind == Operand::Kind::kMessage || o.kind == Operand::Kind::kAggregation;
  }
  double wire_piece() const {
    return static_cast<double>(protocol::wire_bytes(plan_.protocol, static_cast<Bytes>(piece_)));
  }

  bool take(Strand& s) {
    const Step& step = *s.step;
    if (step.lane != Operand::kSameLane) return take_own(s, step);
    if (step.kind == Step::Kind::kSignal) {
      signals_[pair_key(s.rank, step.peer, s.lane)].push_back(s.free + link(s.rank, step.peer, s.lane).latency);
      return true;
    }
    if (step.kind == Step::Kind::kWait) {
      auto& queue = signals_[pair_key(step.peer, s.rank, s.lane)];
      if (queue.empty()) return false;
      s.free = std::max(s.free, queue.front());
      queue.pop_front();
      return true;
    }
    for (const Operand& o : step.sources)
      if (comes_in(o) && messages_[queue_of(o, s)].empty()) return false;
    // The strands of a CPU rank share its core; those of a GPU run side by side.
    double& free = machine_.costs().gpu() ? s.free : core_free_[static_cast<std::size_t>(s.rank)];
    Stream input{std::max(free, s.free), std::max(free, s.free)};
    for (const Operand& o : step.sources) {
      if (!comes_in(o)) continue;
      auto& queue = messages_[queue_of(o, s)];
      input = {std::max(input.first, queue.front().first), std::max(input.last, queue.front().last)};
      queue.pop_front();
    }
    const double whole = std::max(empty_ ? 0 : seconds_of(s, step), posting_of(s, step) * (empty_ ? 1 : slices_));
    const double slice = whole / slices_;
    const Stream output{input.first + slice, std::max(input.first + whole, input.last + slice)};
    double fence = 0;
    for (const Operand& o : step.sources)
      if (o.kind == Operand::Kind::kMulticast)
        fence = std::max(fence, links_[way_key(s.rank, o, Way::kLoad, s.lane)].fence);
    for (const Operand& o : step.destinations) {
      if (o.kind == Operand::Kind::kAggregation) {
        const double latency = links_[way_key(s.rank, o, Way::kUp, lane_of(o, s))].latency;
        send_part(s.rank, o, lane_of(o, s), {output.first + latency, output.last + latency});
      }
      if (o.kind == Operand::Kind::kMulticast)
        fence = std::max(fence, links_[way_key(s.rank, o, Way::kStore, s.lane)].fence);
      if (o.kind != Operand::Kind::kMessage) continue;
      const double latency = link(s.rank, o.peer, lane_of(o, s)).latency;
      messages_[pair_key(s.rank, o.peer, lane_of(o, s))].push_back({output.first + latency, output.last + latency});
      fence = std::max(fence, link(s.rank, o.peer, lane_of(o, s)).fence);
    }
    s.free = free = output.last + fence * (empty_ ? 1 : slices_);
    return true;
  }

  // Between two lanes of one rank: nothing crosses.
  bool take_own(Strand& s, const Step& step) {
    const bool sends = step.kind == Step::Kind::kSignal;
    auto& queue = own_signals_[{s.rank, sends ? s.lane : step.lane, sends ? step.lane : s.lane}];
    if (sends) {
      queue.push_back(s.free);
      return true;
    }
    if (queue.empty()) return false;
    s.free = std::max(s.free, queue.front());
    queue.pop_front();
    return true;
  }

  // A rank posts its messages one after the other, whatever the channel: NCCL's proxy is a thread, a CPU rank a core.
  void count_post(Rank rank, int channel) {
    auto& [all, of_first] = posts_[rank];
    ++all;
    if (channel == 0) ++of_first;
  }
  double posting_share(Rank rank) const {
    const auto found = posts_.find(rank);
    if (found == posts_.end() || found->second.second == 0) return 1;
    return static_cast<double>(found->second.first) / found->second.second;
  }

  // How long posting one slice's messages keeps the strand busy, with the other channels' in between.
  double posting_of(const Strand& s, const Step& step) {
    double seconds = 0;
    for (const Operand& o : step.destinations) {
      if (o.kind == Operand::Kind::kMessage) seconds += link(s.rank, o.peer, lane_of(o, s)).overhead;
      if (o.kind == Operand::Kind::kAggregation)
        seconds += links_[way_key(s.rank, o, Way::kUp, lane_of(o, s))].overhead;
    }
    return seconds > 0 ? seconds * posting_share(s.rank) : 0;
  }

  // How long moving one move's bytes keeps its strand busy.
  double seconds_of(const Strand& s, const Step& step) {
    const double wire = wire_piece();
    if (!machine_.costs().gpu()) {
      const double memory = 1 / cpu_rate().value();
      double seconds = 0;
      for (const Operand& o : step.sources)
        seconds += o.kind != Operand::Kind::kMessage
                       ? piece_ * memory * ends_of(o)
                       : wire * std::max(memory, 1 / link(o.peer, s.rank, lane_of(o, s)).rate);
      for (const Operand& o : step.destinations)
        seconds += o.kind != Operand::Kind::kMessage
                       ? piece_ * memory * ends_of(o)
                       : wire * std::max(memory, 1 / link(s.rank, o.peer, lane_of(o, s)).rate);
      return seconds;
    }
    double slowest = 0, local = 0;
    const auto account = [&](const Operand& o, bool source) {
      if (o.kind == Operand::Kind::kMulticast) {
        const Way way = source ? Way::kLoad : Way::kStore;
        slowest = std::max(slowest, wire / links_[way_key(s.rank, o, way, s.lane)].rate);
      } else if (o.kind == Operand::Kind::kAggregation && !source) {
        slowest = std::max(slowest, wire / links_[way_key(s.rank, o, Way::kUp, lane_of(o, s))].rate);
      } else if (o.kind == Operand::Kind::kLocal || (source && comes_in(o))) {
        local += o.kind == Operand::Kind::kLocal ? piece_ : wire;
      } else {
        const Link& l = source ? link(o.peer, s.rank, s.lane) : link(s.rank, o.peer, lane_of(o, s));
        slowest = std::max(slowest, wire / l.rate);
      }
    };
    for (const Operand& o : step.sources) account(o, true);
    for (const Operand& o : step.destinations) account(o, false);
    return std::max(slowest, local / machine_.costs().local_channel().value());
  }

  // What one rank moves while all ranks do the same.
  BytesPerSecond cpu_rate() const {
    return machine_.level_of(2 * task_.ranks * task_.elements * task_.element_bytes, task_.ranks).rate / task_.ranks;
  }

  // Where ranks do a switch's work, an operand is one for every member.
  static double ends_of(const Operand& o) { return through_group(o) ? o.count : 1; }
  static int lane_of(const Operand& o, const Strand& s) { return o.lane == Operand::kSameLane ? s.lane : o.lane; }
  const Link& link(Rank from, Rank to, int lane) { return links_[pair_key(from, to, lane)]; }

  const MachineView& machine_;
  const Task& task_;
  const Plan& plan_;
  Spread spread_;
  bool empty_ = false;
  double piece_ = 0, rounds_ = 0, slices_ = 1;
  std::unordered_map<std::uint64_t, Link> links_;  // of channel 0
  std::unordered_map<std::uint64_t, double> efficiency_;
  static constexpr int kSignals = 1, kStores = 2, kLoads = 4;
  std::unordered_map<std::uint64_t, int> opened_;  // what for
  std::pair<std::uint64_t, int> last_opened_{~std::uint64_t{0}, 0};
  std::vector<Strand> strands_;
  std::vector<double> core_free_;  // CPU ranks: when the core is free
  std::unordered_map<std::uint64_t, std::deque<Stream>> messages_;
  std::unordered_map<std::uint64_t, std::deque<double>> signals_;
  std::unordered_map<Rank, std::pair<int, int>> posts_;  // connections a rank posts to: of all channels, of the first
  std::map<std::tuple<Rank, int, int>, std::deque<double>> own_signals_;      // from a lane to another of its rank
  std::map<std::tuple<Rank, Rank, Rank>, Rank> groups_;                       // numbered
  std::unordered_map<std::uint64_t, std::vector<std::deque<Stream>>> parts_;  // that switches wait to sum, by member
  std::optional<Error> failure_;
};

struct Walked {
  double total = 0, latency = 0;
};

Result<Walked> walk(const MachineView& machine, const Task& task, const Plan& plan, Spread spread = {}) {
  Walk walk(machine, task, plan, spread);
  Walked w;
  WEFT_TRY(w.total, walk.run(false));
  WEFT_TRY(w.latency, walk.run(true));
  return w;
}

// A quantity known at N, 2N and 4N nodes, after further doublings. Each doubling adds the last one's growth times the
// ratio of the last two: 2 for what grows with the nodes (rings), 1 for what grows with their logarithm (trees), less
// for what converges.
double continued(double first, double second, double third, double doublings) {
  const double before = second - first, last = third - second;
  if (!(last > 0) || !(before > 0)) return third;
  const double ratio = std::min(2.0, last / before);
  if (std::abs(ratio - 1) < 1e-6) return third + last * doublings;
  return third + last * ratio * (std::pow(ratio, doublings) - 1) / (ratio - 1);
}

// Three smaller machines that stand for a large one, each twice the one before.
struct Shortcut {
  Rank nodes, per_node;  // of the first
  bool in_nodes;         // nodes are doubled; else ranks of a node
  double doublings;      // from the third to all ranks
};

// Nothing: few enough steps to walk them all.
std::optional<Shortcut> shortcut_for(const MachineView& machine, const Task& task, std::int64_t steps) {
  const Rank nodes = machine.nodes(task.ranks), per_node = task.ranks / nodes;
  if (steps > kWalkBudget && nodes > kSmallestWalk << 2)
    return Shortcut{.nodes = kSmallestWalk,
                    .per_node = per_node,
                    .in_nodes = true,
                    .doublings = std::log2(static_cast<double>(nodes) / (kSmallestWalk << 2))};
  const Rank first = kMostRanks / nodes / 4;
  if (steps <= kWholeNodeBudget || !machine.costs().gpu() || per_node < 8 * first) return std::nullopt;
  return Shortcut{.nodes = nodes,
                  .per_node = first,
                  .in_nodes = false,
                  .doublings = std::log2(static_cast<double>(per_node) / (4 * first))};
}

// The i-th of them.
Task shrunk(const Task& task, const Plan& plan, const Shortcut& shortcut, int i) {
  Task t = schedule::on_fewer_ranks(task, plan, (shortcut.nodes * shortcut.per_node) << i);
  if (!shortcut.in_nodes) t.ranks_per_node = std::min(task.ranks_per_node, shortcut.per_node << i);
  return t;
}

Estimate estimate_of(Duration launch, const Walked& walked) {
  return {launch + Duration::seconds(walked.total), launch, launch + Duration::seconds(walked.latency)};
}

}  // namespace

Result<Estimate> estimate(const MachineView& machine, const Task& task, const Plan& plan) {
  const Duration* launch = machine.costs().launch(plan.protocol);
  if (launch == nullptr)
    return failure(Code::kUnsupported, Blame::kInput, "{} does not exist on this kind of machine",
                   protocol::traits(plan.protocol).name);

  const Duration start = *launch + plan.filling;
  // All ranks' steps, if they are alike; stories that do not grow with the ranks need no shortcut.
  const std::int64_t steps = steps_of(task, plan, task.ranks / 2) * task.ranks;
  const std::optional<Shortcut> shortcut = shortcut_for(machine, task, steps);
  if (!shortcut) {
    WEFT_TRY(const Walked result, walk(machine, task, plan));
    return estimate_of(start, result);
  }
  Walked at[3];
  for (int i = 0; i < 3; ++i) {
    const Task smaller = shrunk(task, plan, *shortcut, i);
    const Spread spread{smaller.ranks / machine.nodes(task.ranks), task.ranks / machine.nodes(task.ranks)};
    WEFT_TRY(at[i], walk(machine, smaller, plan, shortcut->in_nodes ? Spread{} : spread));
  }
  const auto part = [&](auto&& of) { return continued(of(at[0]), of(at[1]), of(at[2]), shortcut->doublings); };
  Walked result;
  result.latency = part([](const Walked& w) { return w.latency; });
  result.total = result.latency + std::max(0.0, part([](const Walked& w) { return w.total - w.latency; }));
  return estimate_of(start, result);
}

}  // namespace weft::cost
