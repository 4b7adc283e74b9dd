#pragma once

#include <array>
#include <map>
#include <optional>

#include "plan/cost/paths.h"
#include "plan/schedule/lower/lower.h"

namespace weft::cost {

// How long the links between nodes are busy that a plan uses most, over all ranks of a machine and the ways that its
// routing picked: where those are picked by chance, the more ranks there are the more of them meet on one link, which
// few ranks do not show. Counted from the first ranks' steps, which all others are turned from (Algorithm::rotation).
// Thread: one at a time. The machine must outlive it.
class Busiest {
 public:
  // Nothing where ranks generate different steps or have very many peers, where channels use different ways, and where
  // routing avoids what is busy.
  Busiest(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan);

  // Seconds that all chunks of `chunk` bytes keep the busiest link busy; 0 where that is less than `least` or nothing
  // is known.
  double seconds(protocol::Protocol protocol, Bytes chunk, double least);

 private:
  struct Way {
    Rank rank, peer;
    bool sends;

    auto operator<=>(const Way&) const = default;
  };
  using ByKind = std::array<double, PathKind::kCount>;  // of path: chunks over a link's rate, at the most

  double seconds_of(const ByKind& chunks, protocol::Protocol protocol, Bytes chunk) const;
  void count(const schedule::Task& task, const schedule::Plan& plan);
  topology::Path path(const Way& way, Rank turned) const;
  ByKind alone() const;
  ByKind together() const;

  const MachineView& machine_;
  Rank ranks_ = 0, turn_ = 0;
  std::map<Way, double> chunks_;    // that cross between two ranks, in the steps of the first `turn_`
  ByKind alone_{};                  // what one rank's chunks need, …
  std::optional<ByKind> together_;  // … and all ranks'; found when it matters
};

}  // namespace weft::cost
