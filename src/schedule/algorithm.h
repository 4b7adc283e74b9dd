#pragma once

#include <span>
#include <string_view>

#include "base/generator.h"
#include "schedule/collective.h"
#include "schedule/step.h"

namespace weft::schedule {

// All an algorithm may know when it tells one rank's story.
struct Story {
  Rank rank = 0;
  Rank ranks = 1;
  Rank root = 0;            // broadcast
  Rank ranks_per_node = 1;  // consecutive ranks share a node
  int channel = 0;  // independent copies of the schedule, each on a part of every chunk; may order ranks differently
  int lane = 0;     // one of the algorithm's concurrent strands
  bool staged = false;  // peers cannot reach the caller's buffers: go through scratch
};

// One way to perform one collective. A value; the registry in collectives/ lists them all.
struct Algorithm {
  std::string_view name;
  Collective collective = Collective::kAllReduce;
  std::string_view when;    // when it is the right one, for explain and docs
  std::string_view source;  // where the idea is published
  bool load_store = false;  // needs peers' memory by load and store; otherwise messages only
  int lanes = 1;
  int (*chunks)(Rank ranks) = nullptr;
  Generator<Step> (*steps)(Story) = nullptr;
};

}  // namespace weft::schedule
