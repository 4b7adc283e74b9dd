#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/schedule/step.h"

namespace weft::cost {

// How many connections share a link direction (numbered from 0), counted rank by rank, strand by strand, step by step.
// A strand executes one step after the other, and so uses no more connections at once than a step has. Strands run in
// lock-step phases, which end with a step that waits for a peer; a link's users are the maximum over phases. Where a
// strand uses several connections in one phase, one after the other, strands of one rank use the same ones at the same
// time; those of different ranks begin with different ones, and each uses a link for its part of the phase.
class LinkUsers {
 public:
  // `alike`: strands with the same steps.
  void begin_strand(Rank rank, int alike = 1) {
    settle();
    rank_ = rank;
    alike_ = alike;
    place_ = 0;
  }
  // A connection of the strand's step, for the first time; it goes over the links that follow.
  void connect() { ++connections_; }
  void add(std::uint32_t link) {
    if (link >= strand_.size()) strand_.resize(link + 1);
    if (strand_[link]++ == 0) used_.push_back(link);
  }
  void end_step(const schedule::Step& step) {
    using schedule::Operand;
    const auto remote = [](const Operand& o) { return o.kind != Operand::Kind::kLocal; };
    const auto comes = [](const Operand& o) { return o.kind == Operand::Kind::kMessage; };  // its sender's connection
    const auto from = std::ranges::count_if(step.sources, remote),
               to = std::ranges::count_if(step.destinations, remote);
    at_once_ = std::max(at_once_, from - std::ranges::count_if(step.sources, comes) + to);
    if (step.kind != schedule::Step::Kind::kWait && from == 0) return;
    settle();
    ++place_;
  }

  // Requires: the last strand has been counted. At least 1.
  double most(std::uint32_t link) {
    settle();
    double most = 1;
    if (link < by_place_.size())
      for (const Users& users : by_place_[link]) most = std::max({most, users.on_average, users.most_of_rank});
    return most;
  }

 private:
  struct Users {
    double on_average = 0;  // of all ranks
    Rank rank = -1;         // that was counted last, …
    double of_rank = 0;     // … and what it uses at once
    double most_of_rank = 0;
  };

  void settle() {
    by_place_.resize(std::max(by_place_.size(), strand_.size()));
    for (const std::uint32_t link : used_) {
      const std::ptrdiff_t uses = std::exchange(strand_[link], 0);
      std::vector<Users>& places = by_place_[link];
      if (places.size() <= place_) places.resize(place_ + 1);
      Users& users = places[place_];
      if (std::exchange(users.rank, rank_) != rank_) users.of_rank = 0;
      users.of_rank += alike_ * static_cast<double>(std::min(uses, at_once_));
      users.most_of_rank = std::max(users.most_of_rank, users.of_rank);
      users.on_average += alike_ * static_cast<double>(uses) *
                          std::min(1.0, static_cast<double>(at_once_) / static_cast<double>(connections_));
    }
    used_.clear();
    at_once_ = 1;
    connections_ = 0;
  }

  Rank rank_ = -1;
  int alike_ = 1;
  std::size_t place_ = 0;
  std::ptrdiff_t at_once_ = 1, connections_ = 0;  // since the last wait
  std::vector<std::ptrdiff_t> strand_;            // connections over each link, since the last wait …
  std::vector<std::uint32_t> used_;               // … and links with any
  std::vector<std::vector<Users>> by_place_;      // by link
};

}  // namespace weft::cost
