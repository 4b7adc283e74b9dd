#include "plan/cost/shares.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace weft::cost {

using schedule::Operand;
using schedule::Step;

std::vector<double> Shares::all_for_each(const Counts& counts, const Kinds& busy) {
  std::vector<double> shares;
  shares.reserve(counts.size());
  for (const auto& by_kind : counts) {
    Count sum;
    for (std::size_t k = 0; k < PathKind::kCount; ++k) {
      if (!busy[k]) continue;
      sum.of_all += by_kind[k].of_all;
      sum.of_first += by_kind[k].of_first;
    }
    shares.push_back(sum.of_first > 0 ? static_cast<double>(sum.of_all) / sum.of_first : 1);
  }
  return shares;
}

namespace {

constexpr Number kNone = ~Number{0};

// One direction of a rank's connections: the paths to or from its peers, and which of them a channel has opened.
class Peers {
 public:
  Peers(Rank ranks, int lanes)
      : lanes_(static_cast<std::size_t>(lanes)),
        paths_(static_cast<std::size_t>(ranks)),
        opened_(paths_.size() * lanes_) {}
  void begin_rank() { std::ranges::fill(paths_, kNone); }
  void begin_channel() { ++now_; }
  // Opens a connection. True: for the first time.
  bool open(Rank peer, int lane) {
    return std::exchange(opened_[static_cast<std::size_t>(peer) * lanes_ + static_cast<std::size_t>(lane)], now_) !=
           now_;
  }
  Number path(Rank peer, auto&& find) {
    Number& path = paths_[static_cast<std::size_t>(peer)];
    if (path == kNone) path = find();
    return path;
  }

 private:
  std::size_t lanes_;
  std::uint64_t now_ = 0;
  std::vector<Number> paths_;
  std::vector<std::uint64_t> opened_;  // when
};

}  // namespace

// Counts the users of links over the steps of all channels, rank by rank.
class Shares::LinkLoadCounter {
 public:
  LinkLoadCounter(Shares& shares, const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan,
                  Paths& paths)
      : shares_(shares),
        gpu_(machine.costs().gpu()),
        task_(task),
        plan_(plan),
        paths_(paths),
        to_(task.ranks, plan.algorithm->lanes),
        from_(task.ranks, plan.algorithm->lanes) {}

  // Channels with the same steps are counted once.
  void count(int channels) {
    const int orders = std::min(channels, plan_.algorithm->orders_for(schedule::context_of(task_, plan_)));
    for (rank_ = 0; rank_ < task_.ranks; ++rank_) {
      to_.begin_rank();
      from_.begin_rank();
      for (channel_ = 0; channel_ < orders; ++channel_) {
        alike_ = (channels - channel_ + orders - 1) / orders;
        to_.begin_channel();
        from_.begin_channel();
        ways_.clear();
        for (lane_ = 0; lane_ < plan_.algorithm->lanes; ++lane_) hear_strand();
      }
    }
    if (!gpu_) return;
    for (std::size_t d = 0; d < paths_.directions().size(); ++d)
      shares_.users_.push_back(users_.most(static_cast<Number>(d)));
  }

 private:
  void hear_strand() {
    auto steps = plan_.algorithm->steps(context_of(task_, plan_, rank_, lane_, channel_));
    users_.begin_strand(rank_, alike_);
    while (const Step* step = steps.next()) {
      for (const Operand& o : step->sources) {
        if (o.kind == Operand::Kind::kRemote) {
          const Number path = from_.path(o.peer, [&] { return paths_.between(o.peer, rank_); });
          carry(path);
          if (from_.open(o.peer, lane_)) use(path, o.peer, rank_);
        }
        if (o.kind == Operand::Kind::kMulticast) use_group(o, Way::kLoad, lane_);
      }
      for (const Operand& o : step->destinations) {
        const int lane = o.lane == Operand::kSameLane ? lane_ : o.lane;
        if (o.kind == Operand::Kind::kMulticast) use_group(o, Way::kStore, lane_);
        if (o.kind == Operand::Kind::kAggregation) {
          use_group(o, Way::kUp, lane);
          if (rank_ == o.peer) use_group(o, Way::kDown, lane);
        }
        if (o.kind == Operand::Kind::kMessage || o.kind == Operand::Kind::kRemote) {
          const Number path = to_.path(o.peer, [&] { return paths_.between(rank_, o.peer); });
          carry(path);
          if (to_.open(o.peer, lane)) use(path, rank_, o.peer);
        }
      }
      users_.end_step(*step);
    }
  }

  void use(Number path, Rank from, Rank to) {
    use(path);
    count(shares_.posts_, from, path);
    count(shares_.takes_, to, path);
  }

  void use_group(const Operand& o, Way way, int lane) {
    const auto [known, added] = ways_.try_emplace({paths_.group(o), way, lane}, 0);
    if (added) known->second = paths_.of_group(rank_, o, way, by_switch(o, plan_));
    const Number path = known->second;
    if (by_switch(o, plan_)) carry(path);
    if (!added) return;
    if (way == Way::kUp) count(shares_.posts_, rank_, path);
    if (o.count > 1) use(path);
  }

  void carry(Number path) {
    if (!gpu_) return;
    if (path >= shares_.pieces_.size()) shares_.pieces_.resize(path + 1);
    shares_.pieces_[path] += alike_;
    if (channel_ > 0) return;
    if (path >= shares_.first_pieces_.size()) shares_.first_pieces_.resize(path + 1);
    ++shares_.first_pieces_[path];
  }
  void use(Number path) {
    if (!std::exchange(met_[paths_[path].kind.index()], true)) shares_.first_paths_.push_back(path);
    if (!gpu_) return;
    users_.connect();
    for (const Number direction : paths_.hops(paths_[path])) users_.add(direction);
  }
  void count(Counts& counts, Rank rank, Number path) {
    Count& c = counts[static_cast<std::size_t>(rank)][paths_[path].kind.index()];
    c.of_all += alike_;
    if (channel_ == 0) ++c.of_first;
  }

  Shares& shares_;
  bool gpu_;
  const schedule::Task& task_;
  const schedule::Plan& plan_;
  Paths& paths_;
  Peers to_, from_;
  std::map<std::tuple<Number, Way, int>, Number> ways_;  // that this channel of the rank has opened: paths
  std::array<bool, PathKind::kCount> met_{};
  LinkUsers users_;
  Rank rank_ = 0;
  int channel_ = 0, lane_ = 0;
  int alike_ = 1;  // channels with the same steps as this one
};

Shares::Shares(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, Paths& paths,
               int channels)
    : posts_(static_cast<std::size_t>(task.ranks)), takes_(posts_) {
  LinkLoadCounter(*this, machine, task, plan, paths).count(channels);
}

}  // namespace weft::cost
