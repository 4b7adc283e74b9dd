#include "collectives/direct.h"

namespace weft::collectives {

using namespace schedule;

namespace {

// Every rank sends its whole input to every other and sums all inputs itself, in rank order.
// Steps: n. Bytes sent per rank: (n-1) messages. One hop: nothing has a lower latency.
Generator<Step> one_shot_steps(Story story) {
  const int n = story.ranks;
  for (int k = 1; k < n; ++k) co_yield move(0, {in(0)}, {to((story.rank + k) % n)});
  Operands inputs;
  for (Rank r = 0; r < n; ++r) inputs.push_back(r == story.rank ? in(0) : from(r));
  co_yield move(0, inputs, {out(0)});
}

// Rank i sums chunk i straight out of all ranks' memories, in rank order, and stores it into all of them: one pass, no
// copy in between. Signals before (inputs are ready, outputs may be written) and after (all is written). Where peers
// cannot reach the caller's buffers, the chunks of others go through scratch.
// Steps: 4(n-1)+1, staged 6(n-1)+1. Bytes loaded and stored remotely per rank: (n-1)/n of the message each.
Generator<Step> two_shot_steps(Story story) {
  const int n = story.ranks;
  const Rank self = story.rank;
  const auto others = [&](int k) { return (self + k) % n; };
  if (story.staged)
    for (int k = 1; k < n; ++k) co_yield move(others(k), {in(others(k))}, {scratch(others(k))});
  for (int k = 1; k < n; ++k) co_yield signal(others(k));
  for (int k = 1; k < n; ++k) co_yield wait(others(k));

  Operands inputs;
  Operands outputs{out(self)};
  for (Rank r = 0; r < n; ++r) inputs.push_back(r == self ? in(self) : at(r, story.staged ? scratch(self) : in(self)));
  for (int k = 1; k < n; ++k) outputs.push_back(at(others(k), story.staged ? scratch(self) : out(self)));
  co_yield move(self, inputs, outputs);

  for (int k = 1; k < n; ++k) co_yield signal(others(k));
  for (int k = 1; k < n; ++k) co_yield wait(others(k));
  if (story.staged)
    for (int k = 1; k < n; ++k) co_yield move(others(k), {scratch(others(k))}, {out(others(k))});
}

}  // namespace

Algorithm one_shot_all_reduce() {
  return {
      .name = "one_shot",
      .collective = Collective::kAllReduce,
      .when = "smallest messages and few ranks: a single hop",
      .source = "the all-to-all form of recursive doubling; TensorRT-LLM and vLLM custom all-reduce call it one-shot",
      .in_order = true,
      .chunks = [](const Story&) { return 1; },
      .steps = one_shot_steps};
}

Algorithm two_shot_all_reduce() {
  return {
      .name = "two_shot",
      .collective = Collective::kAllReduce,
      .when =
          "ranks that can load and store each other's memory, from medium messages on: least traffic, two "
          "synchronisations",
      .source =
          "reduce-scatter then all-gather over shared memory; TensorRT-LLM and vLLM custom all-reduce call it two-shot",
      .needs = {.messages = false, .load_store = true},
      .in_order = true,
      .chunks = [](const Story& s) { return s.ranks; },
      .scratch = [](const Story& s) { return s.staged ? s.ranks : 0; },
      .steps = two_shot_steps};
}

}  // namespace weft::collectives
