#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "plan/schedule/step.h"

namespace weft::schedule {

// Which ranks have experts of which tokens: what a dispatch and a combine depend on besides their sizes. Every rank has
// as many tokens (or groups of tokens that stay together) as every other one; a token may go nowhere. Tokens are
// numbered in the whole message, rank by rank; they are the chunks of the collective. Immutable: threads may share it.
class TokenRoutes {
 public:
  // `ends[t]`: where token t's ranks end in `destinations`; each token's are rising. `rotation`: rank r + rotation has
  // r's routes with all ranks rotated by as much; 0: not known.
  // Requires: ends.size() == ranks * tokens_per_rank.
  TokenRoutes(Rank ranks, std::vector<std::uint64_t> ends, std::vector<Rank> destinations, Rank rotation);

  Rank ranks() const { return ranks_; }
  ChunkId tokens() const { return static_cast<ChunkId>(ends_.size()); }
  ChunkId tokens_per_rank() const { return tokens() / ranks_; }
  std::span<const Rank> of(ChunkId token) const;
  bool goes(ChunkId token, Rank rank) const;
  Rank owner(ChunkId token) const { return static_cast<Rank>(token / tokens_per_rank()); }
  Rank rotation() const { return rotation_; }
  // Of all tokens, the share of a rank's tokens' bytes that it sends to others, if every copy is a message of its own:
  // copies to other ranks per token. The mean over the ranks.
  double sent_per_token() const;

 private:
  Rank ranks_, rotation_;
  std::vector<std::uint64_t> ends_;
  std::vector<Rank> destinations_;
};

// How often a token travels. Once to each rank that has experts of it (DeepEP's normal kernels; those go through the
// network once per node, which is the algorithm's business), or once for every expert (its low-latency kernels, and a
// plain all_to_all of tokens that were copied beforehand).
enum class Copies : std::uint8_t { kPerRank, kPerExpert };

// Drawn routes: every token chooses `per_token` different ones of `experts`, which lie in blocks on the ranks.
struct Draw {
  Rank ranks = 1, ranks_per_node = 1;
  ChunkId tokens = 1;  // of a rank
  int per_token = 1, experts = 1;
  double imbalance = 1;  // how many times as many tokens as the mean the busiest rank's experts get
  Copies copies = Copies::kPerRank;
  ChunkId most_groups = 64;
  std::uint64_t seed = 1;
};
// At most `most_groups` of tokens per rank are drawn, each of which stands for its share of them. Without imbalance
// every rank's routes are those of rank 0, moved on by whole nodes and within the node, so that all ranks get equally
// much. Errors (bad input): names the number that does not fit.
Result<std::shared_ptr<const TokenRoutes>> draw(const Draw& d);

// Routes of a real call. `experts`: of every rank's every token the numbers of its experts, negative for none; as many
// tokens on every rank. Experts lie in blocks of experts / ranks on the ranks.
// Errors (bad input): names the rank, token and expert that does not exist.
Result<std::shared_ptr<const TokenRoutes>> routes_of(std::span<const std::int32_t> experts, Rank ranks, int per_token,
                                                     int expert_count);

// A table that has these routes: as many experts as ranks, expert e on rank e; `per_token` of each token, -1 for none.
struct ExpertTable {
  int per_token = 1;
  std::vector<std::int32_t> experts;
};
ExpertTable table_of(const TokenRoutes& routes);

// Where a schedule is shown or proved without a call: four tokens per rank, each for two of the ranks' two experts.
// Lives as long as the process. Thread: any.
const std::shared_ptr<const TokenRoutes>& shown_routes(Rank ranks);
// Those, or where there are none, the ones of shown_routes.
const TokenRoutes& or_shown(const TokenRoutes* routes, Rank ranks);

}  // namespace weft::schedule
