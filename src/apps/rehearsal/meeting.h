#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "apps/rehearsal/run.h"

namespace weft::rehearsal {

// One call of a group, or one message: what the ranks that have come to it asked for.
struct Meeting {
  struct Arrival {
    Rank rank = -1;
    const Call* call = nullptr;
    const std::string* line = nullptr;
    double at = 0;
  };
  int group = 0;
  std::vector<Rank> expected;  // rehearsed members
  std::vector<Arrival> arrivals;
  std::vector<int> before;  // meetings that end before this one starts
  bool done = false;
  double end = 0, seconds = 0;

  bool has(Rank rank) const;
  std::vector<Rank> absent() const;
};

// All meetings of a job, in the order in which they were first asked for.
class Meetings {
 public:
  Meetings(const Job& job, const Durations& durations, Outcome& outcome)
      : job_(&job), durations_(&durations), outcome_(&outcome) {}

  // The meeting that a rank's next call is, in the order of the rank's program; see `arrive`.
  int ask(Rank rank, const Call& call);
  // The rank's stream has come to the call.
  void arrive(int meeting, Meeting::Arrival arrival);
  // Ends every meeting that can end; true if one did.
  Result<bool> settle();

  const Meeting& operator[](int meeting) const { return all_[static_cast<std::size_t>(meeting)]; }
  int size() const { return static_cast<int>(all_.size()); }
  // A group of which two ranks' calls differ: later calls that do not match follow from that.
  bool disagreed(int group) const { return disagreed_.contains(group); }

 private:
  using Lane = std::tuple<int, Rank, Rank>;  // group, ranks

  int add(int group, std::vector<Rank> expected);
  int ask_message(Rank rank, const Call& call);
  void compare(Meeting& meeting, const Meeting::Arrival& arrival);

  const Job* job_;
  const Durations* durations_;
  Outcome* outcome_;
  std::vector<Meeting> all_;
  std::vector<int> open_;
  std::map<int, std::vector<int>> of_group_;              // collectives, in order
  std::map<std::pair<Rank, int>, std::size_t> next_;      // by rank and group
  std::map<Lane, std::vector<int>> of_lane_;              // messages from one rank to one other
  std::map<std::pair<Rank, Lane>, std::size_t> next_in_;  // by rank and lane
  std::map<std::pair<Rank, Lane>, int> last_alone_;       // of messages without a batch, in either direction
  std::set<int> disagreed_;                               // groups with a finding
};

// The first difference of two calls that should be one: "all_reduce of 4 float (sum)" against another; empty: none.
bool differ(const Call& a, const Call& b, const Job& job, Rank rank_a, Rank rank_b);

}  // namespace weft::rehearsal
