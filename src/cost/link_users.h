#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "schedule/step.h"

namespace weft::cost {

// How many connections share a link direction, told strand by strand, step by step. A strand carries out one step after
// the other, and so uses no more connections at once than a step has. Strands that wait for each other are equally far:
// what counts is the most that they open over a link at the same place of their stories. A place ends with a step that
// waits for a peer; before it nothing keeps strands in step, and they may meet with any of their connections.
class LinkUsers {
 public:
  void begin_strand() {
    settle();
    place_ = 0;
  }
  // A connection of the strand's step goes over this link, for the first time.
  void add(std::int64_t link) { ++strand_[link]; }
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

  // Requires: the last strand has been told. At least 1.
  int most(std::int64_t link) {
    settle();
    const auto found = by_place_.find(link);
    return found == by_place_.end() ? 1 : std::ranges::max(found->second);
  }

 private:
  void settle() {
    for (const auto& [link, connections] : strand_) {
      std::vector<int>& users = by_place_[link];
      if (users.size() <= place_) users.resize(place_ + 1);
      users[place_] += static_cast<int>(std::min(connections, at_once_));
    }
    strand_.clear();
    at_once_ = 1;
  }

  std::size_t place_ = 0;
  std::ptrdiff_t at_once_ = 1;
  std::unordered_map<std::int64_t, std::ptrdiff_t> strand_;  // connections over each link, since the last wait
  std::unordered_map<std::int64_t, std::vector<int>> by_place_;
};

}  // namespace weft::cost
