#include "plan/cost/script.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace weft::cost {

using schedule::Operand;
using schedule::Step;

namespace {

class ScriptBuilder {
 public:
  ScriptBuilder(const schedule::Task& task, const schedule::Plan& plan, Paths& paths)
      : task_(task), plan_(plan), paths_(paths) {}

  Script build() {
    for (rank_ = 0; rank_ < task_.ranks; ++rank_)
      for (lane_ = 0; lane_ < plan_.algorithm->lanes; ++lane_) {
        first_act_ = script_.acts.size();
        recent_.clear();
        auto steps = plan_.algorithm->steps(context_of(task_, plan_, rank_, lane_, 0));
        while (const Step* step = steps.next()) add(*step);
        script_.strands.push_back({rank_, static_cast<Number>(first_act_), static_cast<Number>(script_.acts.size())});
      }
    return std::move(script_);
  }

 private:
  using Connection = Script::Connection;

  void add(const Step& step) {
    Script::Act act{.kind = step.kind, .sources = 0, .count = 0, .at = 0};
    if (step.kind == Step::Kind::kMove) {
      act.sources = static_cast<Number>(step.sources.size());
      act.count = static_cast<Number>(step.sources.size() + step.destinations.size());
      act.at = ends(step);
    } else {
      const bool own = step.lane != Operand::kSameLane, sends = step.kind == Step::Kind::kSignal;
      act.at = own     ? between_lanes(sends ? lane_ : step.lane, sends ? step.lane : lane_)
               : sends ? between(rank_, step.peer, lane_)
                       : between(step.peer, rank_, lane_);
    }
    std::vector<Script::Act>& acts = script_.acts;
    if (acts.size() > first_act_) {
      act.times = acts.back().times;
      if (act == acts.back()) {
        ++acts.back().times;
        return;
      }
      act.times = 1;
    }
    acts.push_back(act);
  }

  // Where a move's ends are. Most strands have few different moves: what is there from a recent one serves.
  Number ends(const Step& step) {
    constexpr std::size_t kRecent = 4;
    std::vector<Script::End>& all = script_.ends;
    const std::size_t first = all.size();
    for (const Operand& o : step.sources) all.push_back(end(o, true));
    for (const Operand& o : step.destinations) all.push_back(end(o, false));
    const std::size_t count = all.size() - first;
    for (const Number recent : recent_)
      if (recent + count <= first &&
          std::equal(all.begin() + recent, all.begin() + recent + count, all.begin() + first)) {
        all.resize(first);
        return recent;
      }
    if (recent_.size() == kRecent) recent_.erase(recent_.begin());
    return recent_.emplace_back(static_cast<Number>(first));
  }

  Script::End end(const Operand& o, bool source) {
    const int lane = o.lane == Operand::kSameLane ? lane_ : o.lane;
    Script::End end{
        .kind = o.kind, .open = o.open, .scratch = o.buffer == schedule::Buffer::kScratch, .count = 1, .connection = 0};
    switch (o.kind) {
      case Operand::Kind::kLocal:
        break;
      case Operand::Kind::kMessage:
      case Operand::Kind::kRemote:
        end.connection = source ? between(o.peer, rank_, lane) : between(rank_, o.peer, lane);
        break;
      case Operand::Kind::kMulticast:
        end.count = o.count;
        end.connection = through(rank_, o, source ? Way::kLoad : Way::kStore, lane_);
        break;
      case Operand::Kind::kAggregation:
        end.count = o.count;
        end.sum = sum(o, lane);
        const auto member = static_cast<std::size_t>((rank_ - o.peer) / o.stride);
        end.connection = source ? script_.sums[end.sum].members[member] : through(rank_, o, Way::kUp, lane);
        break;
    }
    return end;
  }

  // A connection's number, and what it is when it is met first.
  template <class Names, class Name>
  Number number(Names& names, const Name& name, auto&& meet) {
    const auto [at, added] = names.try_emplace(name, static_cast<Number>(script_.connections.size()));
    if (added) script_.connections.push_back(meet());
    return at->second;
  }
  Number between(Rank from, Rank to, int lane) {
    const std::uint64_t name =
        static_cast<std::uint64_t>(from) << 36 | static_cast<std::uint64_t>(to) << 8 | static_cast<std::uint64_t>(lane);
    return number(between_, name, [&] { return Connection{Connection::Kind::kLinks, paths_.between(from, to)}; });
  }
  Number between_lanes(int from, int to) {
    return number(between_lanes_, std::tuple(rank_, from, to), [] { return Connection{}; });
  }
  Number through(Rank rank, const Operand& o, Way way, int lane) {
    return number(through_, std::tuple(rank, paths_.group(o), way, lane), [&] {
      return Connection{o.count > 1 ? Connection::Kind::kLinks : Connection::Kind::kOwn,
                        paths_.of_group(rank, o, way, by_switch(o, plan_))};
    });
  }
  Number sum(const Operand& o, int lane) {
    const auto [at, added] = sums_.try_emplace({paths_.group(o), lane}, static_cast<Number>(script_.sums.size()));
    if (!added) return at->second;
    Script::Sum sum{.first = o.peer, .stride = o.stride, .down = through(o.peer, o, Way::kDown, lane), .members = {}};
    for (Rank i = 0; i < o.count; ++i) {
      sum.members.push_back(static_cast<Number>(script_.connections.size()));
      script_.connections.emplace_back();
    }
    script_.sums.push_back(std::move(sum));
    return at->second;
  }

  const schedule::Task& task_;
  const schedule::Plan& plan_;
  Paths& paths_;
  Script script_;
  std::unordered_map<std::uint64_t, Number> between_;
  std::map<std::tuple<Rank, int, int>, Number> between_lanes_;
  std::map<std::tuple<Rank, Number, Way, int>, Number> through_;
  std::map<std::pair<Number, int>, Number> sums_;
  Rank rank_ = 0;
  int lane_ = 0;
  std::size_t first_act_ = 0;   // of the strand
  std::vector<Number> recent_;  // first ends of its latest different moves
};

}  // namespace

schedule::RankContext context_of(const schedule::Task& task, const schedule::Plan& plan, Rank rank, int lane,
                                 int channel) {
  schedule::RankContext context = schedule::context_of(task, plan);
  context.rank = rank;
  context.lane = lane;
  context.channel = channel;
  return context;
}

Script build_script(const schedule::Task& task, const schedule::Plan& plan, Paths& paths) {
  return ScriptBuilder(task, plan, paths).build();
}

}  // namespace weft::cost
