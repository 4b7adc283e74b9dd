#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/schedule/schedule.h"

namespace weft::schedule {

// The signals of a plan of MSCCL++: ends of memory channels, the thread block that signals on one and the one that
// waits at the other, and the lanes that follow. A channel's two thread blocks are one lane where that is possible for
// all of a plan; otherwise their signals have a lane of their own.
class ChannelLanes {
 public:
  // The same channel at the peer. Errors (bad input): the channel leads nowhere.
  Result<std::pair<Rank, std::int64_t>> other_end(Rank gpu, std::int64_t channel) const;
  void connect(const std::vector<const nlohmann::json*>& gpus);
  void signals(Rank gpu, int block, std::int64_t channel) { signallers_[{gpu, channel}].insert(block); }
  void waits(Rank gpu, int block, std::int64_t channel) { waiters_[{gpu, channel}].insert(block); }
  // After all of them are known. Errors (bad input): several thread blocks signal on one end, or wait at it.
  Status assign();

  int lane_of(Rank gpu, int block) const;
  // The lane of what a thread block signals on, or waits for at, a channel; its own where they agree or nobody is
  // there.
  int lane_of_signal(Rank gpu, int block, std::int64_t channel) const;
  int lane_of_wait(Rank gpu, int block, std::int64_t channel) const;
  int lanes() const { return lanes_; }

 private:
  using End = std::pair<Rank, std::int64_t>;
  using Block = std::pair<Rank, int>;
  int lane_of_pair(const Block& from, const Block& to) const;
  bool colour(const std::vector<std::pair<Block, Block>>& edges);

  std::vector<std::vector<std::int64_t>> connected_;  // per gpu and channel: the peer; -1: none
  std::vector<int> blocks_;                           // per gpu
  std::map<End, std::set<int>> signallers_, waiters_;
  std::map<Block, int> lane_;
  std::map<std::pair<int, int>, int> between_;  // numbers of two thread blocks: the lane of their signals
  int lanes_ = 1;
};

}  // namespace weft::schedule
