#pragma once

#include <array>
#include <vector>

#include "plan/cost/link_users.h"
#include "plan/cost/script.h"

namespace weft::cost {

// How a plan's channels share links and ranks, counted from the steps of all of them. Does not depend on protocol and
// sizes. A value.
class Shares {
 public:
  // `channels`: those at work.
  Shares(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, Paths& paths,
         int channels);

  // How many use a link direction at once, at least 1.
  double users(Number direction) const { return direction < users_.size() ? users_[direction] : 1; }
  // The first path of every kind that any channel uses.
  const std::vector<Number>& first_paths() const { return first_paths_; }
  // GPUs: pieces of chunks that all ranks and channels move over every path in a round, by its number.
  const std::vector<double>& pieces() const { return pieces_; }
  const std::vector<double>& first_pieces() const { return first_pieces_; }  // of channel 0 only

  // A rank posts its messages one after the other, whatever the channel: NCCL's proxy is a thread, a CPU rank a core.
  // All channels' messages for each of channel 0's, counting paths of the kinds that keep it busy. The same of those
  // that it takes.
  using Kinds = std::array<bool, PathKind::kCount>;
  std::vector<double> posting(const Kinds& busy) const { return all_for_each(posts_, busy); }
  std::vector<double> taking(const Kinds& busy) const { return all_for_each(takes_, busy); }

 private:
  class LinkLoadCounter;
  struct Count {
    int of_all = 0, of_first = 0;  // connections
  };
  using Counts = std::vector<std::array<Count, PathKind::kCount>>;  // by rank
  static std::vector<double> all_for_each(const Counts& counts, const Kinds& busy);

  std::vector<double> users_;
  std::vector<Number> first_paths_;
  std::vector<double> pieces_, first_pieces_;
  Counts posts_, takes_;
};

}  // namespace weft::cost
