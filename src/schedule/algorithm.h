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
  Rank root = 0;            // of the rooted collectives
  Rank ranks_per_node = 1;  // consecutive ranks share a node
  int channel = 0;  // independent copies of the schedule, each on a part of every chunk; may order ranks differently
  int lane = 0;     // one of the algorithm's concurrent strands
  bool staged = false;  // peers cannot reach the caller's buffers: go through scratch
  int told = 0;         // simulations only: so many of the steps that the story repeats alike; 0: all

  int repeated(int times) const { return told > 0 && told < times ? told : times; }
};

// What a fabric must have. Signals it has in any case.
struct Needs {
  bool messages = true;
  bool load_store = false;   // peers' memory by load and store
  bool multicast = false;    // a switch that reduces and multicasts, or load/store to do the same
  bool aggregation = false;  // a switch that reduces messages, or messages among all to do the same

  bool memory() const { return load_store || multicast; }  // peers touch the caller's buffers
};

// One way to perform one collective. A value; the registry in collectives/ lists them all.
struct Algorithm {
  std::string_view name;
  Collective collective = Collective::kAllReduce;  // serves its uneven form too, see `uneven`
  std::string_view when;                           // when it is the right one, for explain and docs
  std::string_view source;                         // where the idea is published
  Needs needs = {};
  bool in_order = false;  // every sum is one fold over all ranks' inputs in rank order: the same bits on any fabric
  bool uneven = false;    // every rank needs only the sizes of parts that it sends or receives itself
  int lanes = 1;
  // Of the whole message; scratch slots of a rank; the most parts in one message. Null: one per block, none, one.
  int (*chunks)(const Story&) = nullptr;
  int (*scratch)(const Story&) = nullptr;
  int (*parts)(const Story&) = nullptr;
  Generator<Step> (*steps)(Story) = nullptr;
  // Two claims for simulations of many ranks, which tests hold against the texts. Null or zero: neither.
  //   turn     rank r + turn, modulo the ranks, does what r does, with all peers turned likewise (other chunks)
  //   repeats  how often a story repeats steps that are alike but for their chunks: `told` shortens all such stretches
  Rank (*turn)(const Story&) = nullptr;
  int (*repeats)(const Story&) = nullptr;

  int chunks_for(const Story& s) const { return chunks != nullptr ? chunks(s) : blocks(collective, s.ranks); }
  int scratch_for(const Story& s) const { return scratch != nullptr ? scratch(s) : 0; }
  int parts_for(const Story& s) const { return parts != nullptr ? parts(s) : 1; }
  Rank turn_for(const Story& s) const { return turn != nullptr ? turn(s) : 0; }
  int repeats_for(const Story& s) const { return repeats != nullptr ? repeats(s) : 0; }
};

}  // namespace weft::schedule
