#include "plan/collectives/direct.h"

#include "plan/collectives/rotations.h"

namespace weft::collectives {

using namespace schedule;

namespace {

// Rank i sums chunk i straight out of all ranks' memories (broadcast: takes the root's), in rank order, and stores it
// into all of them (reduce: into the root's): one pass, no copy in between. Signals before (inputs are ready, outputs
// may be written) and after (all is written). Where peers cannot reach the caller's buffers, the chunks of others go
// through scratch. Steps: 4(n-1)+1, staged 6(n-1)+1. Bytes loaded and stored remotely per rank: (n-1)/n of the message
// each; broadcast: 1/n and (n-1)/n, so that every core does the same.
Generator<Step> two_shot_steps(Collective collective, RankContext context) {
  const int n = context.ranks;
  const Rank self = context.rank;
  const auto others = [&](int k) { return (self + k) % n; };
  const auto gives = [&](Rank r) { return collective != Collective::kBroadcast || r == context.root; };
  const auto wants = [&](Rank r) { return collective != Collective::kReduce || r == context.root; };
  if (context.staged && gives(self))
    for (int k = 1; k < n; ++k) co_yield move(others(k), {in(others(k))}, {scratch(others(k))});
  for (int k = 1; k < n; ++k) co_yield signal(others(k));
  for (int k = 1; k < n; ++k) co_yield wait(others(k));

  Operands inputs, outputs;
  if (wants(self)) outputs.push_back(out(self));
  for (Rank r = 0; r < n; ++r)
    if (gives(r)) inputs.push_back(r == self ? in(self) : at(r, context.staged ? scratch(self) : in(self)));
  for (int k = 1; k < n; ++k)
    if (wants(others(k))) outputs.push_back(at(others(k), context.staged ? scratch(self) : out(self)));
  co_yield move(self, inputs, outputs);

  for (int k = 1; k < n; ++k) co_yield signal(others(k));
  for (int k = 1; k < n; ++k) co_yield wait(others(k));
  if (context.staged && wants(self))
    for (int k = 1; k < n; ++k) co_yield move(others(k), {scratch(others(k))}, {out(others(k))});
}

// Every rank fetches the blocks of its output out of the inputs of those who have them, and sums them in rank order.
// Signals before (the input is ready) and after (it was read). Where peers cannot reach the caller's buffers, a rank
// first puts what others will fetch into scratch.
// Steps: one per block of the output, a signal and a wait per peer and direction. Bytes loaded remotely per rank: what
// it wants of the peers.
Generator<Step> fetch_steps(Collective collective, RankContext context) {
  const int n = context.ranks, self = context.rank;
  const Shape shape{collective, n, context.root, blocks(collective, n)};
  const Run own = held_blocks(shape, Buffer::kIn, self), wanted = held_blocks(shape, Buffer::kOut, self);
  const auto exposed = [&](Rank owner, ChunkId block) {
    if (!context.staged) return in(block);
    const Run held = held_blocks(shape, Buffer::kIn, owner);
    return scratch((block - held.first) / held.stride);
  };
  const auto peers_want = [&](ChunkId block) {
    for (Rank reader = 0; reader < n; ++reader)
      if (reader != self && holds(shape, Buffer::kOut, block, reader)) return true;
    return false;
  };
  if (context.staged)
    for (int i = 0; i < own.count; ++i)
      if (peers_want(own.at(i))) co_yield move(own.at(i), {in(own.at(i))}, {scratch(i)});
  for (int k = 1; k < n; ++k)
    if (const Rank reader = (self + k) % n; shared_blocks(shape, self, reader).count > 0) co_yield signal(reader);
  for (int k = 1; k < n; ++k)
    if (const Rank owner = (self + k) % n; shared_blocks(shape, owner, self).count > 0) co_yield wait(owner);
  for (int i = 0; i < wanted.count; ++i) {
    const ChunkId block = wanted.at((self + i) % wanted.count);  // not all at the same owner at once
    const Run owners = contributors(shape, block);
    if (owners.count == 1 && owners.first == self) continue;
    Operands sources;
    for (int o = 0; o < owners.count; ++o)
      sources.push_back(owners.at(o) == self ? in(block) : at(owners.at(o), exposed(owners.at(o), block)));
    co_yield move(block, sources, {out(block)});
  }
  for (int k = 1; k < n; ++k)
    if (const Rank owner = (self + k) % n; shared_blocks(shape, owner, self).count > 0) co_yield signal(owner);
  // What is only this rank's own comes while the peers read: in place it is already there.
  const Run kept = shared_blocks(shape, self, self);
  for (int i = 0; i < kept.count; ++i)
    if (contributors(shape, kept.at(i)).count == 1) co_yield move(kept.at(i), {in(kept.at(i))}, {out(kept.at(i))});
  for (int k = 1; k < n; ++k)
    if (const Rank reader = (self + k) % n; shared_blocks(shape, self, reader).count > 0) co_yield wait(reader);
}

template <Collective kCollective>
int staged_blocks(const RankContext& s) {
  const Shape shape{kCollective, s.ranks, s.root, blocks(kCollective, s.ranks)};
  return s.staged ? held_blocks(shape, Buffer::kIn, s.root).count : 0;
}

template <Collective kCollective>
Algorithm direct_of(std::string_view when) {
  return {.name = "direct",
          .collective = kCollective,
          .when = when,
          .source = "one-sided get; NCCL's symmetric kernels, MPI shared-memory collectives by kernel-assisted copy",
          .needs = {.messages = false, .load_store = true},
          .in_order = true,
          .scratch = staged_blocks<kCollective>,
          .steps = [](RankContext context) { return fetch_steps(kCollective, context); },
          .rotation = rooted(kCollective) || kCollective == Collective::kSendReceive ? nullptr : by_one_rank};
}

template <Collective kCollective>
Algorithm two_shot_of(std::string_view when) {
  return {.name = "two_shot",
          .collective = kCollective,
          .when = when,
          .source =
              "reduce-scatter then all-gather over shared memory; TensorRT-LLM and vLLM custom all-reduce call it "
              "two-shot",
          .needs = {.messages = false, .load_store = true, .stores = true},
          .in_order = true,
          .chunks = [](const RankContext& s) { return static_cast<int>(s.ranks); },
          .scratch = [](const RankContext& s) { return s.staged ? static_cast<int>(s.ranks) : 0; },
          .steps = [](RankContext context) { return two_shot_steps(kCollective, context); },
          .rotation = rooted(kCollective) ? nullptr : by_one_rank};
}

constexpr std::string_view kWhen = "ranks that can load and store each other's memory, from medium messages on";

}  // namespace

std::vector<Algorithm> direct() {
  return {direct_of<Collective::kBroadcast>(kWhen), direct_of<Collective::kReduce>(kWhen),
          direct_of<Collective::kAllGather>(kWhen), direct_of<Collective::kReduceScatter>(kWhen),
          direct_of<Collective::kAllToAll>(kWhen),  direct_of<Collective::kGather>(kWhen),
          direct_of<Collective::kScatter>(kWhen),   direct_of<Collective::kSendReceive>(kWhen)};
}

Algorithm two_shot_all_reduce() {
  return two_shot_of<Collective::kAllReduce>(
      "ranks that can load and store each other's memory, from medium messages on: least traffic, two "
      "synchronisations");
}
Algorithm two_shot_broadcast() {
  return two_shot_of<Collective::kBroadcast>(
      "ranks that can load and store each other's memory, large messages: every rank hands on a part");
}
Algorithm two_shot_reduce() {
  return two_shot_of<Collective::kReduce>(
      "ranks that can load and store each other's memory, large messages: every rank sums a part");
}

}  // namespace weft::collectives
