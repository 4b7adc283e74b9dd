#include "plan/cost/busiest.h"

#include <algorithm>
#include <vector>

#include "plan/cost/script.h"

namespace weft::cost {

using schedule::Operand;
using schedule::Step;

namespace {

constexpr std::size_t kMostPeers = 64;  // of a rank: where all talk to all, nobody's way matters
constexpr double kMostMeet = 16;        // ranks on one link that chance brings together; fat trees of 2,048 nodes: 6

}  // namespace

Busiest::Busiest(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan)
    : machine_(machine), ranks_(task.ranks) {
  const schedule::RankContext context = schedule::context_of(task, plan);
  turn_ = plan.algorithm->rotation_for(context);
  const bool avoids = machine.topology().routing.policy == topology::Routing::Policy::kAdaptive;
  if (turn_ <= 0 || ranks_ % turn_ != 0 || ranks_ > machine.endpoints() || plan.algorithm->orders_for(context) > 1 ||
      avoids)
    return;
  count(task, plan);
  alone_ = alone();
}

double Busiest::seconds(protocol::Protocol protocol, Bytes chunk, double least) {
  if (chunks_.empty() || seconds_of(alone_, protocol, chunk) * kMostMeet < least) return 0;
  if (!together_) together_ = together();
  return seconds_of(*together_, protocol, chunk);
}

double Busiest::seconds_of(const ByKind& chunks, protocol::Protocol protocol, Bytes chunk) const {
  double most = 0;
  for (int type = 0; type <= static_cast<int>(topology::PathType::kDis); ++type) {
    const PathKind kind{static_cast<topology::PathType>(type)};
    if (const protocol::HopCost* cost = kind.cost(machine_.costs(), protocol); cost != nullptr && cost->efficiency > 0)
      most = std::max(most, chunks[kind.index()] / cost->efficiency);
  }
  return most * static_cast<double>(protocol::wire_bytes(protocol, chunk));
}

// Chunks that go to other nodes.
void Busiest::count(const schedule::Task& task, const schedule::Plan& plan) {
  const auto node = [&](Rank r) { return machine_.topology().device(machine_.device(r)).node; };
  for (Rank r = 0; r < turn_; ++r)
    for (int lane = 0; lane < plan.algorithm->lanes; ++lane) {
      auto steps = plan.algorithm->steps(context_of(task, plan, r, lane, 0));
      while (const Step* step = steps.next()) {
        for (const Operand& o : step->sources)
          if (o.kind == Operand::Kind::kRemote) ++chunks_[{r, o.peer, false}];
        for (const Operand& o : step->destinations)
          if (o.message() || o.kind == Operand::Kind::kRemote) ++chunks_[{r, o.peer, true}];
        if (chunks_.size() > kMostPeers * static_cast<std::size_t>(turn_)) return chunks_.clear();
      }
    }
  std::erase_if(chunks_, [&](const auto& c) { return turn_ > 1 && node(c.first.rank) == node(c.first.peer); });
}

topology::Path Busiest::path(const Way& way, Rank turned) const {
  const Rank self = way.rank + turned, peer = (way.peer + turned) % ranks_;
  return way.sends ? machine_.path(self, peer) : machine_.path(peer, self);
}

Busiest::ByKind Busiest::alone() const {
  ByKind most{};
  std::map<Rank, ByKind> of_rank;
  for (const auto& [way, chunks] : chunks_) {
    const topology::Path p = path(way, 0);
    double& sum = of_rank[way.rank][PathKind{p.type}.index()];
    sum += chunks / p.rate.value();
    most[PathKind{p.type}.index()] = std::max(most[PathKind{p.type}.index()], sum);
  }
  return most;
}

Busiest::ByKind Busiest::together() const {
  std::array<std::vector<double>, PathKind::kCount> on_link;  // chunks, by direction
  for (const auto& [way, chunks] : chunks_)
    for (Rank turned = 0; turned < ranks_; turned += turn_) {
      const topology::Path p = path(way, turned);
      std::vector<double>& on = on_link[PathKind{p.type}.index()];
      if (on.empty()) on.resize(2 * machine_.topology().links().size());
      for (const topology::Hop& h : p.hops) on[static_cast<std::size_t>(2 * h.link + (h.forward ? 0 : 1))] += chunks;
    }
  ByKind most{};
  for (std::size_t kind = 0; kind < on_link.size(); ++kind)
    for (std::size_t d = 0; d < on_link[kind].size(); ++d)
      if (on_link[kind][d] > 0)
        most[kind] = std::max(most[kind], on_link[kind][d] / machine_.rate(static_cast<std::int64_t>(d)).value());
  return most;
}

}  // namespace weft::cost
