#include "plan/schedule/render/timeline.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace weft::schedule {
namespace {

class Runner {
 public:
  explicit Runner(const Schedule& schedule) : s_(schedule), next_(schedule.strands.size(), 0) {
    for (const auto& strand : s_.strands) result_.levels.emplace_back(strand.size(), -1);
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int strand = 0; strand < static_cast<int>(next_.size()); ++strand)
        while (step(strand)) moved = true;
    }
    for (const auto& strand : result_.levels)
      for (const int level : strand) {
        result_.columns = std::max(result_.columns, level + 1);
        result_.stuck += level < 0;
      }
    return std::move(result_);
  }

 private:
  using Sent = std::deque<StepId>;

  int lane_of(int strand, const Operand& o) const { return o.lane == Operand::kSameLane ? strand % s_.lanes : o.lane; }
  Sent& messages(Rank from, int lane, Rank to) { return messages_[{from, lane, to}]; }
  std::vector<Sent>& aggregation(const Operand& o, int lane) {
    auto& sent = aggregations_[{o.peer, o.count, o.stride, lane}];
    sent.resize(static_cast<std::size_t>(o.count));
    return sent;
  }
  int level(const StepId& id) const {
    return result_.levels[static_cast<std::size_t>(id.strand)][static_cast<std::size_t>(id.step)];
  }

  bool ready(int strand, const Step& now) {
    const Rank rank = strand / s_.lanes;
    for (auto o = order_of(strand); o != s_.orders.end() && o->strand == strand && o->step == at(strand); ++o)
      if (at(rank * s_.lanes + o->lane) <= o->after) return false;
    if (now.kind == Step::Kind::kWait && signals_[{now.peer, strand % s_.lanes, rank}].empty()) return false;
    for (const Operand& o : now.sources) {
      const int lane = lane_of(strand, o);
      if (o.message() && messages(o.peer, lane, rank).empty()) return false;
      if (o.kind != Operand::Kind::kAggregation) continue;
      const auto& sent = aggregation(o, lane);
      for (const Sent& one : sent)
        if (one.size() <= taken_[{o.peer, o.count, o.stride, lane, rank}]) return false;
    }
    return true;
  }

  bool step(int strand) {
    const auto& steps = s_.strands[static_cast<std::size_t>(strand)];
    if (at(strand) == static_cast<int>(steps.size())) return false;
    const Step& now = steps[next_[static_cast<std::size_t>(strand)]];
    if (!ready(strand, now)) return false;
    const Rank rank = strand / s_.lanes;
    const StepId self{strand, at(strand)};
    int level = self.step == 0 ? 0 : this->level({strand, self.step - 1}) + 1;
    const auto after = [&](const StepId& cause) { level = std::max(level, this->level(cause) + 1); };
    for (auto o = order_of(strand); o != s_.orders.end() && o->strand == strand && o->step == self.step; ++o)
      after({rank * s_.lanes + o->lane, o->after});
    const auto take = [&](Sent& queue, ChunkId chunk) {
      after(queue.front());
      result_.arrows.push_back({queue.front(), self, chunk});
      queue.pop_front();
    };
    if (now.kind == Step::Kind::kWait) take(signals_[{now.peer, strand % s_.lanes, rank}], -1);
    if (now.kind == Step::Kind::kSignal) signals_[{rank, strand % s_.lanes, now.peer}].push_back(self);
    for (const Operand& o : now.sources) {
      const int lane = lane_of(strand, o);
      if (o.message()) take(messages(o.peer, lane, rank), now.chunk);
      if (o.kind != Operand::Kind::kAggregation) continue;
      const std::size_t turn = taken_[{o.peer, o.count, o.stride, lane, rank}]++;
      for (const Sent& one : aggregation(o, lane)) {
        after(one[turn]);
        if (one[turn].strand / s_.lanes != rank) result_.arrows.push_back({one[turn], self, now.chunk});
      }
    }
    for (const Operand& o : now.destinations) {
      const int lane = lane_of(strand, o);
      if (o.message()) messages(rank, lane, o.peer).push_back(self);
      if (o.kind == Operand::Kind::kAggregation)
        aggregation(o, lane)[static_cast<std::size_t>((rank - o.peer) / o.stride)].push_back(self);
    }
    result_.levels[static_cast<std::size_t>(strand)][static_cast<std::size_t>(self.step)] = level;
    ++next_[static_cast<std::size_t>(strand)];
    return true;
  }

  int at(int strand) const { return static_cast<int>(next_[static_cast<std::size_t>(strand)]); }
  std::vector<Order>::const_iterator order_of(int strand) const {
    return std::ranges::lower_bound(s_.orders, Order{strand, at(strand), 0, 0});
  }

  const Schedule& s_;
  std::vector<std::size_t> next_;
  std::map<std::tuple<Rank, int, Rank>, Sent> messages_, signals_;  // (from, lane, to)
  std::map<std::tuple<Rank, Rank, Rank, int>, std::vector<Sent>> aggregations_;
  std::map<std::tuple<Rank, Rank, Rank, int, Rank>, std::size_t> taken_;
  Timeline result_;
};

}  // namespace

Timeline timeline(const Schedule& schedule) { return Runner(schedule).run(); }

}  // namespace weft::schedule
