#include "move/reshard/plan.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/text.h"
#include "move/reshard/plan_writer.h"

namespace weft::reshard {

std::span<const Plan::Sender> Plan::senders_of(const Pattern& pattern, const Flow& flow, std::size_t receiver) const {
  const auto& senders = flow.senders;
  const Rank r = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks[receiver];
  const auto from = [&](Rank rank) { return std::lower_bound(senders.begin(), senders.end(), Sender{rank, 0}); };
  if (options_.same_ranks && from(r) != senders.end() && from(r)->rank == r) return {from(r), 1};
  if (options_.per_node > 0) {
    const Rank node = ((options_.same_ranks ? 0 : from_->ranks) + r) / options_.per_node;
    const auto first = from(node * options_.per_node), last = from((node + 1) * options_.per_node);
    if (first != last) return {first, last};
  }
  return senders;
}

namespace {
// Which of equal senders serves a receiver: turns go round, so that each of them sends equally much.
std::size_t choice_of(std::size_t receiver, std::int64_t turn, std::size_t senders) {
  return (static_cast<std::size_t>(turn) + receiver) % senders;
}

// What pairs of ranks move: a table where its rows are mostly used, else a map.
class PairTotals {
 public:
  PairTotals(Rank senders, Rank receivers) : receivers_(receivers) {
    const auto all = static_cast<std::size_t>(senders) * static_cast<std::size_t>(receivers);
    if (all <= kMost) table_.resize(all);
  }
  void add(Rank sender, Rank receiver, std::int64_t bytes, std::int64_t pieces) {
    const std::uint64_t at = static_cast<std::uint64_t>(sender) * static_cast<std::uint64_t>(receivers_) +
                             static_cast<std::uint64_t>(receiver);
    PairTotal& total = table_.empty() ? map_[at] : table_[at];
    total.sender = sender, total.receiver = receiver;
    total.bytes += bytes;
    total.pieces += pieces;
  }
  // The pairs are sorted by sender, then receiver.
  std::vector<PairTotal> sorted() {
    std::vector<PairTotal> all = std::move(table_);
    std::erase_if(all, [](const PairTotal& total) { return total.pieces == 0; });
    for (const auto& [at, total] : map_) all.push_back(total);
    if (!map_.empty())
      std::sort(all.begin(), all.end(), [](const PairTotal& a, const PairTotal& b) {
        return std::pair(a.sender, a.receiver) < std::pair(b.sender, b.receiver);
      });
    return all;
  }

 private:
  static constexpr std::size_t kMost = 1 << 21;  // pairs: 48 MiB
  Rank receivers_;
  std::vector<PairTotal> table_;
  std::unordered_map<std::uint64_t, PairTotal> map_;
};
}  // namespace

// Jobs of a pattern differ in their turn only, so they are counted by turn modulo the number of equal senders.
void Plan::add_up() {
  PairTotals pairs(from_->ranks, to_->ranks);
  std::vector<std::vector<std::int32_t>> turns(patterns_.size());
  for (const Job& job : jobs_) turns[static_cast<std::size_t>(job.pattern)].push_back(job.turn);
  for (std::size_t p = 0; p < patterns_.size(); ++p) {
    const Pattern& pattern = *patterns_[p];
    std::unordered_map<std::size_t, std::vector<std::int64_t>> jobs_by_turn;  // by the number of senders
    for (const Flow& flow : pattern.flows) {
      const auto& receivers = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks;
      for (std::size_t k = 0; k < receivers.size(); ++k) {
        const auto senders = senders_of(pattern, flow, k);
        auto& jobs = jobs_by_turn[senders.size()];
        if (jobs.empty()) {
          jobs.resize(senders.size());
          for (const std::int32_t turn : turns[p]) ++jobs[static_cast<std::size_t>(turn) % jobs.size()];
        }
        for (std::size_t turn = 0; turn < jobs.size(); ++turn) {
          if (jobs[turn] == 0) continue;
          const Sender sender = senders[choice_of(k, static_cast<std::int64_t>(turn), senders.size())];
          pairs.add(sender.rank, receivers[k], jobs[turn] * flow.elements * pattern.element_bytes,
                    jobs[turn] * flow.choices[static_cast<std::size_t>(sender.choice)].pieces);
        }
      }
    }
  }
  pairs_ = pairs.sorted();
}

void Plan::emit(const Job& job, std::int64_t turn, Rank receiver, const std::function<void(const Move&)>& call) const {
  const Pattern& pattern = *patterns_[static_cast<std::size_t>(job.pattern)];
  for (const Flow& flow : pattern.flows) {
    const auto& receivers = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks;
    const auto only = receiver < 0 ? receivers.begin() : std::lower_bound(receivers.begin(), receivers.end(), receiver);
    if (receiver >= 0 && (only == receivers.end() || *only != receiver)) continue;
    for (auto at = only; at != (receiver < 0 ? receivers.end() : only + 1); ++at) {
      const auto k = static_cast<std::size_t>(at - receivers.begin());
      const auto senders = senders_of(pattern, flow, k);
      const Sender sender = senders[choice_of(k, turn, senders.size())];
      Writer(pattern, flow, flow.choices[static_cast<std::size_t>(sender.choice)])
          .write({.from = job.from, .to = job.to, .sender = sender.rank, .receiver = *at}, call);
    }
  }
}

Status Plan::for_each_unit(Rank receiver, std::span<const Rank> without, const std::function<void(Unit)>& call) const {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = jobs_[j];
    const Pattern& pattern = *patterns_[static_cast<std::size_t>(job.pattern)];
    for (std::size_t f = 0; f < pattern.flows.size(); ++f) {
      const Flow& flow = pattern.flows[f];
      const auto& receivers = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks;
      const auto at = std::lower_bound(receivers.begin(), receivers.end(), receiver);
      if (at == receivers.end() || *at != receiver) continue;
      const auto k = static_cast<std::size_t>(at - receivers.begin());
      const auto left = [&](std::span<const Sender> senders) {
        std::vector<Sender> there;
        for (const Sender& s : senders)
          if (std::find(without.begin(), without.end(), s.rank) == without.end()) there.push_back(s);
        return there;
      };
      auto senders = left(senders_of(pattern, flow, k));
      if (senders.empty()) senders = left(flow.senders);
      if (senders.empty())
        return failure(Code::kPeerDied, Blame::kOperation,
                       "tensor {}: rank {}: rank {} of {} is lost, and no other has its part",
                       shown(to_->tensors[static_cast<std::size_t>(job.to)].name), receiver, flow.senders.front().rank,
                       from_->name);
      const Sender sender = senders[choice_of(k, job.turn, senders.size())];
      Unit unit{static_cast<std::int64_t>(j << 32 | f), sender.rank, flow.elements * pattern.element_bytes, {}};
      Writer(pattern, flow, flow.choices[static_cast<std::size_t>(sender.choice)])
          .write({.from = job.from, .to = job.to, .sender = sender.rank, .receiver = receiver},
                 [&](const Move& m) { unit.moves.push_back(m); });
      call(std::move(unit));
    }
  }
  return {};
}

std::span<const Plan::Job> Plan::jobs_of(std::int32_t to_tensor) const {
  if (to_tensor < 0) return jobs_;
  const auto before = [](const Job& job, std::int32_t t) { return job.to < t; };
  const auto first = std::lower_bound(jobs_.begin(), jobs_.end(), to_tensor, before);
  return {first, std::lower_bound(first, jobs_.end(), to_tensor + 1, before)};
}

void Plan::for_each(const std::function<void(const Move&)>& call, Rank receiver, std::int32_t to_tensor) const {
  for (const Job& job : jobs_of(to_tensor)) emit(job, job.turn, receiver, call);
}

std::vector<Move> Plan::moves(Rank receiver, std::int32_t to_tensor) const {
  std::vector<Move> moves;
  for_each([&](const Move& m) { moves.push_back(m); }, receiver, to_tensor);
  return moves;
}

void Plan::for_each_pattern(const std::function<void(std::int32_t, int)>& call) const {
  std::map<std::int32_t, int> tensors;
  for (const auto& p : patterns_) tensors[p->first_tensor] = std::max(tensors[p->first_tensor], p->most_senders);
  for (const auto& [tensor, senders] : tensors) call(tensor, senders);
}

std::vector<Move> Plan::moves_by(std::int32_t to_tensor, int sender) const {
  std::vector<Move> moves;
  for (const Job& job : jobs_of(to_tensor))
    emit(job, job.turn + sender, -1, [&](const Move& m) { moves.push_back(m); });
  return moves;
}

}  // namespace weft::reshard
