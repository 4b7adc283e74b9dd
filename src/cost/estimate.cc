#include "cost/estimate.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "base/check.h"

namespace weft::cost {
namespace {

using protocol::Protocol;
using schedule::Operand;
using schedule::Plan;
using schedule::Step;
using schedule::Task;

constexpr std::int64_t kWalkBudget = 8000;  // steps of channel 0: about a millisecond
constexpr int kWalkedRounds = 3;
constexpr Rank kSmallestWalk = 2;  // nodes: walks of 2, 4 and 8 stand for more

std::uint64_t pair_key(Rank from, Rank to, int lane) {
  return static_cast<std::uint64_t>(from) << 36 | static_cast<std::uint64_t>(to) << 8 |
         static_cast<std::uint64_t>(lane);
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

// Seconds, as doubles: the walk adds up small numbers.
class Walk {
 public:
  Walk(const MachineView& machine, const Task& task, const Plan& plan) : machine_(machine), task_(task), plan_(plan) {}

  Result<double> run(bool empty_messages) {
    empty_ = empty_messages;
    measure_pieces();
    if (links_.empty()) count_connections();
    if (failure_) return tl::make_unexpected(*failure_);
    strands_.clear();
    messages_.clear();
    signals_.clear();
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
            .staged = plan_.staged};
  }

  // How much of a chunk one round of channel 0 moves, and how many rounds there are.
  void measure_pieces() {
    const schedule::Cut cut = schedule::cut_of(task_, plan_);
    piece_ = static_cast<double>(std::min(cut.piece, cut.round));
    rounds_ = cut.round > 0 ? static_cast<double>(cut.piece) / static_cast<double>(cut.round) : 0;
    slices_ = cut.slice > 0 ? std::max(1.0, std::ceil(piece_ / static_cast<double>(cut.slice))) : 1;
  }

  // Opens every connection of every channel, and shares the links between them.
  void count_connections() {
    std::unordered_map<std::int64_t, int> users;
    std::unordered_map<std::uint64_t, std::vector<std::int64_t>> hops;
    std::unordered_map<std::uint64_t, topology::Path> paths;
    const int lanes = plan_.algorithm->lanes;
    for (int channel = 0; channel < plan_.channels && !failure_; ++channel) {
      for (Rank r = 0; r < task_.ranks; ++r) {
        for (int lane = 0; lane < lanes; ++lane) {
          auto steps = plan_.algorithm->steps(story(r, lane, channel));
          while (const Step* step = steps.next()) {
            if (step->kind != Step::Kind::kMove) open(r, step->peer, lane, channel, false, users, hops, paths);
            for (const Operand& o : step->sources)
              if (o.kind == Operand::Kind::kRemote) open(o.peer, r, lane, channel, true, users, hops, paths, true);
            for (const Operand& o : step->destinations)
              if (o.kind != Operand::Kind::kLocal)
                open(r, o.peer, o.lane == Operand::kSameLane ? lane : o.lane, channel, true, users, hops, paths);
          }
        }
      }
    }
    for (auto& [key, link] : links_) {
      for (const std::int64_t h : hops[key]) {
        const topology::Link& l = machine_.topology().link(static_cast<topology::LinkId>(h / 2));
        const double rate = (h % 2 == 0 ? l.rate_ab : l.rate_ba).value() * efficiency_[key] / users[h];
        link.rate = std::min(link.rate, rate);
      }
    }
  }

  // `carries`: data, not only signals. `loads`: `to` fetches it, which shares links with what `from` sends there
  // itself.
  void open(Rank from, Rank to, int lane, int channel, bool carries, std::unordered_map<std::int64_t, int>& users,
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
    if (added) path->second = machine_.path(from, to);
    const protocol::HopCost* cost = machine_.costs().find(name(path->second.type), plan_.protocol);
    if (cost == nullptr) {
      failure_ = Error{Code::kUnsupported, Blame::kInput,
                       fmt::format("{} does not run from rank {} to rank {}: a {} path",
                                   protocol::traits(plan_.protocol).name, from, to, name(path->second.type))};
      return;
    }
    if (carries && machine_.costs().gpu())
      for (const topology::Hop& h : path->second.hops) ++users[2 * h.link + (h.forward ? 0 : 1)];
    if (channel > 0 || links_.contains(key)) return;
    links_[key] = {
        (machine_.costs().latency(*cost, path->second.latency, machine_.sharing(task_.ranks)) - cost->overhead).s(),
        cost->overhead.s(), cost->fence.s(), cost->channel.value()};
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

  bool take(Strand& s) {
    const Step& step = *s.step;
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
      if (o.kind == Operand::Kind::kMessage && messages_[pair_key(o.peer, s.rank, lane_of(o, s))].empty()) return false;
    // The strands of a CPU rank share its core; those of a GPU run side by side.
    double& free = machine_.costs().gpu() ? s.free : core_free_[static_cast<std::size_t>(s.rank)];
    Stream input{std::max(free, s.free), std::max(free, s.free)};
    for (const Operand& o : step.sources) {
      if (o.kind != Operand::Kind::kMessage) continue;
      auto& queue = messages_[pair_key(o.peer, s.rank, lane_of(o, s))];
      input = {std::max(input.first, queue.front().first), std::max(input.last, queue.front().last)};
      queue.pop_front();
    }
    const double whole = std::max(empty_ ? 0 : seconds_of(s, step), posting_of(s, step) * (empty_ ? 1 : slices_));
    const double slice = whole / slices_;
    const Stream output{input.first + slice, std::max(input.first + whole, input.last + slice)};
    double fence = 0;
    for (const Operand& o : step.destinations) {
      if (o.kind != Operand::Kind::kMessage) continue;
      const double latency = link(s.rank, o.peer, lane_of(o, s)).latency;
      messages_[pair_key(s.rank, o.peer, lane_of(o, s))].push_back({output.first + latency, output.last + latency});
      fence = std::max(fence, link(s.rank, o.peer, lane_of(o, s)).fence);
    }
    s.free = free = output.last + fence * (empty_ ? 1 : slices_);
    return true;
  }

  // How long posting one slice's messages keeps the strand busy.
  double posting_of(const Strand& s, const Step& step) {
    double seconds = 0;
    for (const Operand& o : step.destinations)
      if (o.kind == Operand::Kind::kMessage) seconds += link(s.rank, o.peer, lane_of(o, s)).overhead;
    return seconds;
  }

  // How long moving one move's bytes keeps its strand busy.
  double seconds_of(const Strand& s, const Step& step) {
    const auto data = static_cast<Bytes>(piece_);
    const double wire = static_cast<double>(protocol::wire_bytes(plan_.protocol, data));
    if (!machine_.costs().gpu()) {
      const double memory = 1 / cpu_rate().value();
      double seconds = 0;
      for (const Operand& o : step.sources)
        seconds += o.kind != Operand::Kind::kMessage
                       ? piece_ * memory
                       : wire * std::max(memory, 1 / link(o.peer, s.rank, lane_of(o, s)).rate);
      for (const Operand& o : step.destinations)
        seconds += o.kind != Operand::Kind::kMessage
                       ? piece_ * memory
                       : wire * std::max(memory, 1 / link(s.rank, o.peer, lane_of(o, s)).rate);
      return seconds;
    }
    double slowest = 0, local = 0;
    const auto account = [&](const Operand& o, bool source) {
      if (o.kind == Operand::Kind::kLocal || (source && o.kind == Operand::Kind::kMessage)) {
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

  static int lane_of(const Operand& o, const Strand& s) { return o.lane == Operand::kSameLane ? s.lane : o.lane; }
  const Link& link(Rank from, Rank to, int lane) { return links_[pair_key(from, to, lane)]; }

  const MachineView& machine_;
  const Task& task_;
  const Plan& plan_;
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
  std::optional<Error> failure_;
};

struct Walked {
  double total = 0, latency = 0;
};

Result<Walked> walk(const MachineView& machine, const Task& task, const Plan& plan) {
  Walk walk(machine, task, plan);
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

}  // namespace

Result<Estimate> estimate(const MachineView& machine, const Task& task, const Plan& plan) {
  const Duration* launch = machine.costs().launch(plan.protocol);
  if (launch == nullptr)
    return failure(Code::kUnsupported, Blame::kInput, "{} does not exist on this kind of machine",
                   protocol::traits(plan.protocol).name);

  const Rank nodes = machine.nodes(task.ranks);
  // All ranks' steps, if they are alike; stories that do not grow with the ranks need no shortcut.
  const std::int64_t steps = steps_of(task, plan, task.ranks / 2) * task.ranks;
  Walked result;
  if (steps <= kWalkBudget || nodes <= kSmallestWalk << 2) {
    WEFT_TRY(result, walk(machine, task, plan));
  } else {
    const auto shrunk = [&](Rank to_nodes) {
      Task t = task;
      t.ranks = task.ranks / nodes * to_nodes;
      t.root = std::min(task.root, t.ranks - 1);
      // Chunks stay as they are, so that rounds and slices do: fewer ranks then share a smaller message.
      if (plan.algorithm->chunks_for({.ranks = task.ranks, .ranks_per_node = task.ranks_per_node}) >= task.ranks)
        t.elements = std::max<Bytes>(1, task.elements / task.ranks) * t.ranks;
      return t;
    };
    Walked at[3];
    for (int i = 0; i < 3; ++i) {
      const Task smaller = shrunk(kSmallestWalk << i);
      WEFT_TRY(at[i], walk(machine, smaller, plan));
    }
    const double doublings = std::log2(static_cast<double>(nodes) / (kSmallestWalk << 2));
    const auto part = [&](auto&& of) { return continued(of(at[0]), of(at[1]), of(at[2]), doublings); };
    result.latency = part([](const Walked& w) { return w.latency; });
    result.total = result.latency + std::max(0.0, part([](const Walked& w) { return w.total - w.latency; }));
  }
  return Estimate{*launch + Duration::seconds(result.total), *launch, *launch + Duration::seconds(result.latency)};
}

}  // namespace weft::cost
