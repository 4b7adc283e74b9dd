#include "plan/schedule/exchange/mscclpp_lanes.h"

#include <algorithm>
#include <numeric>

namespace weft::schedule {

using nlohmann::json;

void ChannelLanes::connect(const std::vector<const json*>& gpus) {
  for (const json* gpu : gpus) {
    std::vector<std::int64_t>& peers = connected_.emplace_back();
    const auto channels = gpu->find("channels"), blocks = gpu->find("threadblocks");
    blocks_.push_back(blocks != gpu->end() && blocks->is_array() ? static_cast<int>(blocks->size()) : 0);
    lanes_ = std::max(lanes_, blocks_.back());
    if (channels == gpu->end() || !channels->is_array()) continue;
    for (const json& all : *channels) {
      if (!all.is_object() || all.value("channel_type", json()) != "memory" || !peers.empty()) continue;
      const auto ends = all.find("connected_to");
      if (ends == all.end() || !ends->is_array()) continue;
      for (const json& peer : *ends) peers.push_back(peer.is_number_integer() ? peer.get<std::int64_t>() : -1);
    }
  }
}

// The n-th channel of a gpu to a peer is the n-th of the peer to it.
Result<std::pair<Rank, std::int64_t>> ChannelLanes::other_end(Rank gpu, std::int64_t channel) const {
  const auto& own = connected_[static_cast<std::size_t>(gpu)];
  if (channel < 0 || channel >= static_cast<std::int64_t>(own.size()))
    return bad_input("memory channel {} leads nowhere", channel);
  const std::int64_t peer = own[static_cast<std::size_t>(channel)];
  if (peer < 0 || peer >= static_cast<std::int64_t>(connected_.size()) || peer == gpu)
    return bad_input("memory channel {} leads to {}", channel, peer);
  auto nth = std::count(own.begin(), own.begin() + channel, peer);
  const auto& theirs = connected_[static_cast<std::size_t>(peer)];
  for (std::size_t i = 0; i < theirs.size(); ++i)
    if (theirs[i] == gpu && nth-- == 0) return std::pair(static_cast<Rank>(peer), static_cast<std::int64_t>(i));
  return bad_input("gpu {} has fewer memory channels to gpu {} than the other way round", peer, gpu);
}

Status ChannelLanes::assign() {
  for (const auto& [ends, what] : {std::pair(&signallers_, "signal on"), std::pair(&waiters_, "wait at")})
    for (const auto& [end, blocks] : *ends)
      if (blocks.size() > 1)
        return bad_input("gpu {}: {} thread blocks {} memory channel {}", end.first, blocks.size(), what, end.second);
  std::vector<std::pair<Block, Block>> edges;
  for (const auto& [end, blocks] : signallers_) {
    WEFT_TRY(const auto other, other_end(end.first, end.second));
    const auto waiting = waiters_.find(other);
    if (waiting != waiters_.end())
      edges.push_back({{end.first, *blocks.begin()}, {other.first, *waiting->second.begin()}});
  }
  const bool same = std::ranges::all_of(edges, [](const auto& e) { return e.first.second == e.second.second; });
  if (same || colour(edges)) return {};
  lane_.clear();
  lanes_ = std::max(1, *std::ranges::max_element(blocks_));
  for (const auto& [from, to] : edges)
    if (from.second != to.second && between_.emplace(std::pair(from.second, to.second), lanes_).second) ++lanes_;
  return {};
}

// One lane for all thread blocks that signal each other, none twice on a gpu. False: two of them are on one gpu.
bool ChannelLanes::colour(const std::vector<std::pair<Block, Block>>& edges) {
  std::map<Block, Block> up;  // union-find
  const auto root = [&](Block at) {
    for (auto next = up.find(at); next != up.end() && next->second != at; next = up.find(at)) at = next->second;
    return at;
  };
  for (std::size_t g = 0; g < blocks_.size(); ++g)
    for (int b = 0; b < blocks_[g]; ++b) up[{static_cast<Rank>(g), b}] = {static_cast<Rank>(g), b};
  for (const auto& [a, b] : edges)
    if (const Block one = root(a), two = root(b); one != two) up[std::max(one, two)] = std::min(one, two);
  std::map<Block, std::set<Rank>> gpus;
  for (const auto& [block, above] : up)
    if (!gpus[root(block)].insert(block.first).second) return false;
  std::vector<std::set<Rank>> taken;
  std::map<Block, int> lane;
  for (const auto& [head, on] : gpus) {
    std::size_t free = 0;
    const auto clash = [&](Rank gpu) { return taken[free].contains(gpu); };
    while (free < taken.size() && std::ranges::any_of(on, clash)) ++free;
    if (free == taken.size()) taken.emplace_back();
    taken[free].insert(on.begin(), on.end());
    lane[head] = static_cast<int>(free);
  }
  for (const auto& [block, above] : up) lane_[block] = lane[root(block)];
  lanes_ = std::max<int>(1, static_cast<int>(taken.size()));
  return true;
}

int ChannelLanes::lane_of(Rank gpu, int block) const {
  const auto at = lane_.find({gpu, block});
  return at == lane_.end() ? block : at->second;
}

int ChannelLanes::lane_of_pair(const Block& from, const Block& to) const {
  const auto at = between_.find({from.second, to.second});
  return at == between_.end() ? -1 : at->second;
}

int ChannelLanes::lane_of_signal(Rank gpu, int block, std::int64_t channel) const {
  const auto other = other_end(gpu, channel);
  const auto waiting = other ? waiters_.find(*other) : waiters_.end();
  const int own = lane_of(gpu, block);
  if (waiting == waiters_.end()) return own;
  const int lane = lane_of_pair({gpu, block}, {other->first, *waiting->second.begin()});
  return lane < 0 ? own : lane;
}

int ChannelLanes::lane_of_wait(Rank gpu, int block, std::int64_t channel) const {
  const auto other = other_end(gpu, channel);
  const auto signalling = other ? signallers_.find(*other) : signallers_.end();
  const int own = lane_of(gpu, block);
  if (signalling == signallers_.end()) return own;
  const int lane = lane_of_pair({other->first, *signalling->second.begin()}, {gpu, block});
  return lane < 0 ? own : lane;
}

}  // namespace weft::schedule
