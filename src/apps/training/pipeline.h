#pragma once

#include <cstdint>
#include <vector>

#include "apps/training/plan.h"

namespace weft::training {

// What a chunk of layers takes for one micro-batch, in seconds. `weight`: the part of the backward pass that computes
// gradients of weights, which zero-bubble schedules move; 0 where `backward` contains it.
struct ChunkTime {
  double forward = 0, backward = 0, weight = 0;
};

struct Pipeline {
  std::int64_t stages = 1, chunks = 1, micro_batches = 1;  // chunks: of a stage, virtual stages
  Schedule schedule = Schedule::k1F1B;
  std::vector<ChunkTime> times;  // [stage × chunks + chunk]
  double edge = 0;               // s from the end on one stage to the start on the next; computing is never blocked
  // Weights of each stage are complete by then: its first forward pass ends no earlier; empty: at once.
  std::vector<double> weights_at;
};

// One pass of one chunk.
struct Piece {
  std::int64_t stage = 0, chunk = 0, micro_batch = 0;
  char pass = 'F';  // F, B or W
  double begin = 0, end = 0;
};

struct PipelineRun {
  double seconds = 0;  // of a step: up to the last stage's end; ZB-2p: the longest of the stages' spans
  std::vector<double> stage_end, stage_busy;  // s
  // Where a stage's step begins: 0, but ZB-2p's stages do not wait for each other between steps, so that a stage's step
  // begins with its first pass.
  std::vector<double> stage_begin;
  std::vector<Piece> pieces;  // of every stage in order
};

// The schedule in virtual time: 1F1B, interleaved 1F1B where a stage has several chunks (micro-batches are then a
// multiple of the stages), the zero-bubble schedule ZB-H1, which holds as many activations as 1F1B, or ZB-H2, which
// holds twice as many: how far its weights' gradients lag behind is searched for, as the paper's heuristic does.
PipelineRun run(const Pipeline& pipeline);

}  // namespace weft::training
