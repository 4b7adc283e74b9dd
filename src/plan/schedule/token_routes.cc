#include "plan/schedule/token_routes.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>

#include "base/check.h"

namespace weft::schedule {
namespace {

constexpr ChunkId kMostTokens = ChunkId{1} << 26;

// Puts routes together token by token.
class Builder {
 public:
  explicit Builder(Rank ranks) : ranks_(ranks) {}

  // `to`: in any order, perhaps twice.
  void add(std::vector<Rank> to) {
    std::ranges::sort(to);
    to.erase(std::ranges::unique(to).begin(), to.end());
    destinations_.insert(destinations_.end(), to.begin(), to.end());
    ends_.push_back(destinations_.size());
  }
  std::shared_ptr<const TokenRoutes> done(Rank rotation) {
    return std::make_shared<const TokenRoutes>(ranks_, std::move(ends_), std::move(destinations_), rotation);
  }

 private:
  Rank ranks_;
  std::vector<std::uint64_t> ends_;
  std::vector<Rank> destinations_;
};

// Tokens' choices, as ranks, one after the other.
class Chooser {
 public:
  explicit Chooser(const Draw& d) : d_(d), random_(d.seed), hot_(d.imbalance / d.ranks) {}

  // Different experts of one token, by the ranks they lie on. Without imbalance tokens deal all experts out before they
  // begin anew: few tokens then stand for many.
  std::vector<Rank> next() {
    std::vector<int> chosen;
    while (static_cast<int>(chosen.size()) < d_.per_token)
      if (const int expert = one(); std::ranges::find(chosen, expert) == chosen.end()) chosen.push_back(expert);
    std::vector<Rank> ranks;
    for (const int expert : chosen) ranks.push_back(static_cast<Rank>(expert / each()));
    return ranks;
  }

 private:
  int each() const { return d_.experts / d_.ranks; }
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  int one() {
    if (d_.imbalance <= 1) return dealt();
    const bool hot = static_cast<double>(random_() >> 11) * 0x1p-53 < hot_;
    return hot ? below(each()) : each() + below(d_.experts - each());
  }

  int dealt() {
    if (pack_.empty()) {
      pack_.resize(static_cast<std::size_t>(d_.experts));
      std::iota(pack_.begin(), pack_.end(), 0);
      for (std::size_t i = pack_.size(); i > 1; --i)
        std::swap(pack_[i - 1], pack_[static_cast<std::size_t>(below(static_cast<int>(i)))]);
    }
    const int expert = pack_.back();
    pack_.pop_back();
    return expert;
  }

  const Draw& d_;
  std::vector<int> pack_;  // experts that are still to be dealt
  std::mt19937_64 random_;
  double hot_;  // probability of rank 0's experts
};

Status check(const Draw& d) {
  if (d.tokens < 1 || d.tokens > kMostTokens) return bad_input("{} tokens: there are 1 to {}", d.tokens, kMostTokens);
  if (d.experts < 1 || d.experts > 1 << 20) return bad_input("{} experts: there are 1 to {}", d.experts, 1 << 20);
  if (d.experts % d.ranks != 0)
    return bad_input("{} experts do not lie evenly on {} ranks: the number of experts is a multiple of the ranks",
                     d.experts, d.ranks);
  if (d.per_token < 1 || d.per_token > d.experts)
    return bad_input("{} experts of a token, of {} experts: there is at least one, and at most all", d.per_token,
                     d.experts);
  if (!(d.imbalance >= 1) || d.imbalance > d.ranks)
    return bad_input("imbalance {}: the busiest rank has 1 to {} times the mean of {} ranks", d.imbalance, d.ranks,
                     d.ranks);
  if (d.imbalance > 1 && d.ranks > 1 && d.per_token > d.experts - d.experts / d.ranks)
    return bad_input("imbalance {} is none where every token takes {} of {} experts", d.imbalance, d.per_token,
                     d.experts);
  return {};
}

// Rank 0's neighbour `to`, seen from `self`: as many nodes on, as many places on within the node.
Rank moved(Rank to, Rank self, Rank ranks, Rank per_node) {
  const Rank nodes = ranks / per_node;
  return (to / per_node + self / per_node) % nodes * per_node + (to % per_node + self % per_node) % per_node;
}

}  // namespace

TokenRoutes::TokenRoutes(Rank ranks, std::vector<std::uint64_t> ends, std::vector<Rank> destinations, Rank rotation)
    : ranks_(ranks), rotation_(rotation), ends_(std::move(ends)), destinations_(std::move(destinations)) {
  WEFT_REQUIRE(ranks > 0 && !ends_.empty() && ends_.size() % static_cast<std::size_t>(ranks) == 0,
               "{} tokens, {} ranks", ends_.size(), ranks);
}

std::span<const Rank> TokenRoutes::of(ChunkId token) const {
  const auto t = static_cast<std::size_t>(token);
  const std::uint64_t begin = t == 0 ? 0 : ends_[t - 1];
  return {destinations_.data() + begin, static_cast<std::size_t>(ends_[t] - begin)};
}

bool TokenRoutes::goes(ChunkId token, Rank rank) const { return std::ranges::binary_search(of(token), rank); }

double TokenRoutes::sent_per_token() const {
  std::int64_t sent = 0;
  for (ChunkId t = 0; t < tokens(); ++t) sent += static_cast<std::int64_t>(of(t).size()) - goes(t, owner(t));
  return static_cast<double>(sent) / static_cast<double>(tokens());
}

Result<std::shared_ptr<const TokenRoutes>> draw(const Draw& d) {
  WEFT_CHECK(check(d));
  const ChunkId groups = std::min(d.tokens, d.most_groups);
  const bool per_expert = d.copies == Copies::kPerExpert;
  const bool alike = d.imbalance <= 1 && d.ranks_per_node > 0 && d.ranks % d.ranks_per_node == 0;
  Chooser choose(d);
  Builder routes(d.ranks);
  std::vector<std::vector<Rank>> first;  // rank 0's choices
  for (ChunkId t = 0; t < groups; ++t) first.push_back(choose.next());
  for (Rank self = 0; self < d.ranks; ++self)
    for (ChunkId t = 0; t < groups; ++t) {
      std::vector<Rank> to = alike || self == 0 ? first[static_cast<std::size_t>(t)] : choose.next();
      if (alike)
        for (Rank& r : to) r = moved(r, self, d.ranks, d.ranks_per_node);
      if (!per_expert)
        routes.add(std::move(to));
      else
        for (const Rank r : to) routes.add({r});
    }
  const Rank rotation = !alike ? 0 : d.ranks_per_node == d.ranks || d.ranks_per_node == 1 ? 1 : d.ranks_per_node;
  return routes.done(rotation);
}

Result<std::shared_ptr<const TokenRoutes>> routes_of(std::span<const std::int32_t> experts, Rank ranks, int per_token,
                                                     int expert_count) {
  if (expert_count < 1 || expert_count % ranks != 0)
    return bad_input("{} experts do not lie evenly on {} ranks: the number of experts is a multiple of the ranks",
                     expert_count, ranks);
  const auto n = static_cast<std::size_t>(ranks);
  if (per_token < 1 || experts.empty() || experts.size() % (n * static_cast<std::size_t>(per_token)) != 0)
    return bad_input("{} numbers of experts are not {} per token of {} ranks, as many tokens on each", experts.size(),
                     per_token, ranks);
  const std::size_t tokens = experts.size() / static_cast<std::size_t>(per_token);
  Builder routes(ranks);
  for (std::size_t t = 0; t < tokens; ++t) {
    std::vector<Rank> to;
    for (int k = 0; k < per_token; ++k) {
      const std::int32_t expert = experts[t * static_cast<std::size_t>(per_token) + static_cast<std::size_t>(k)];
      if (expert >= expert_count)
        return bad_input("rank {} token {}: expert {} of {}", t / (tokens / n), t % (tokens / n), expert, expert_count);
      if (expert >= 0) to.push_back(expert / (expert_count / ranks));
    }
    routes.add(std::move(to));
  }
  return routes.done(0);
}

ExpertTable table_of(const TokenRoutes& routes) {
  ExpertTable table;
  for (ChunkId t = 0; t < routes.tokens(); ++t)
    table.per_token = std::max(table.per_token, static_cast<int>(routes.of(t).size()));
  for (ChunkId t = 0; t < routes.tokens(); ++t) {
    const auto to = routes.of(t);
    for (std::size_t k = 0; k < static_cast<std::size_t>(table.per_token); ++k)
      table.experts.push_back(k < to.size() ? to[k] : -1);
  }
  return table;
}

const std::shared_ptr<const TokenRoutes>& shown_routes(Rank ranks) {
  static std::mutex mutex;
  static auto& kept = *new std::map<Rank, std::shared_ptr<const TokenRoutes>>;
  const std::lock_guard lock(mutex);
  auto& routes = kept[ranks];
  if (routes == nullptr) {
    auto drawn = draw({.ranks = ranks, .ranks_per_node = ranks, .tokens = 4, .per_token = 2, .experts = 2 * ranks});
    WEFT_REQUIRE(drawn.has_value(), "routes of {} ranks", ranks);
    routes = *drawn;
  }
  return routes;
}

const TokenRoutes& or_shown(const TokenRoutes* routes, Rank ranks) {
  return routes != nullptr ? *routes : *shown_routes(ranks);
}

}  // namespace weft::schedule
