#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/generator.h"
#include "base/result.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/step.h"

namespace weft::schedule {

// Orders in which rings pass through the ranks of a node, where these are not all alike to each other: channel c takes
// order c modulo their number. Each names all local ranks once.
using RingOrders = std::vector<std::vector<Rank>>;

// Nodes that do not all have a rank on the same places: those of a cluster that has lost GPUs, or whose last node is
// not full. A value.
struct UnevenNodes {
  std::vector<Rank> first;   // rank of every node, and the number of all ranks
  std::vector<Rank> places;  // by rank: its GPU's number in the node, rising
  std::vector<Rank>
      common;  // places that every node has a rank on, rising: what rings and trees cross between nodes by

  Rank node_of(Rank rank) const { return static_cast<Rank>(std::ranges::upper_bound(first, rank) - first.begin()) - 1; }
  Rank size(Rank node) const { return at(first, node + 1) - at(first, node); }
  static Rank at(const std::vector<Rank>& of, Rank i) { return of[static_cast<std::size_t>(i)]; }
};

// The only inputs from which an algorithm generates one rank's steps.
struct RankContext {
  Rank rank = 0;
  Rank ranks = 1;
  Rank root = 0;            // of the rooted collectives
  Rank ranks_per_node = 1;  // consecutive ranks share a node; 1 if nodes are uneven
  int channel = 0;  // independent copies of the schedule, each on a part of every chunk; may order ranks differently
  int lane = 0;     // one of the algorithm's concurrent strands
  bool staged = false;                  // peers cannot reach the caller's buffers: go through scratch
  const RingOrders* rings = nullptr;    // null, or of nodes of another size: by number
  const UnevenNodes* nodes = nullptr;   // null: all have ranks_per_node. The ranks may be those of its first nodes
  const TokenRoutes* routes = nullptr;  // of the routed collectives; null: shown_routes(ranks)
  int bundle = 0;        // chunks that fit into one message, where messages have several parts; 0: not known
  int repeat_limit = 0;  // simulations only: at most this many repetitions of a steady-state step are emitted; 0: all

  int repeated(int times) const { return repeat_limit > 0 && repeat_limit < times ? repeat_limit : times; }
};

// What a fabric must have. Signals it has in any case.
struct Needs {
  bool messages = true;
  bool load_store = false;   // peers' memory by load and store
  bool stores = false;       // … and stores; otherwise only loads
  bool multicast = false;    // a switch that reduces and multicasts, or load/store to do the same
  bool aggregation = false;  // a switch that reduces messages, or messages among all to do the same

  bool memory() const { return load_store || multicast; }  // peers touch the caller's buffers
};

// What a schedule that was read from a file was written for.
struct WrittenFor {
  Rank ranks = 0, root = 0;
  bool out_of_place = true, in_place = true;
  std::uint64_t digest = 0;  // of the schedule: all ranks must run the same

  bool serves(bool is_in_place) const { return is_in_place ? in_place : out_of_place; }
};

// How long the longest chain of steps is on more nodes, where every chunk stays as large as it is.
enum class Growth {
  kUnknown,
  kPerDoubling,   // twice the nodes: one link of the chain more
  kPerLevel,      // the same, of binary trees over the nodes: on every second node they are the same without the leaves
  kPerNode,       // linear: every further node adds links, as in chains
  kAboutPerNode,  // the same to 1 %: what bounds a step may change with the nodes
  kPerRow         // about as kPerNode, of grids whose rows are nodes of several ranks: for estimates only
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
  int lanes_of_block = 0;  // of one thread block of a GPU's kernel; 0: all of a channel
  int connections = 0;     // between two ranks, of one channel, where not every lane has its own; 0: every lane has
  int slots = 2;           // messages that a connection must hold
  // Chunks of the whole message; scratch slots of a rank; the most parts in one message. Null: one per block, none,
  // one.
  std::function<int(const RankContext&)> chunks, scratch, parts;
  std::function<Generator<Step>(RankContext)> steps;
  std::optional<WrittenFor> written_for = {};  // none: any number of ranks, any root, in place where the collective may
  // On how many channels ranks are ordered differently: channel c generates the same steps as channel c modulo this
  // number. Null: one order for all. Held against the texts by tests, as are the claims below.
  std::function<int(const RankContext&)> orders;
  // Claims for simulations of many ranks. Null or zero: none.
  //   rotation  rank r + rotation, modulo the ranks, has the steps of r with all peers rotated by as much (other
  //   chunks) repeats   how often a rank repeats steps that are equal but for their chunks: `repeat_limit` shortens all
  //   such
  //             stretches
  //   growth    the steps that more nodes add
  std::function<Rank(const RankContext&)> rotation;
  std::function<int(const RankContext&)> repeats;
  Growth growth = Growth::kUnknown;

  ChunkId chunks_for(const RankContext& s) const { return chunks != nullptr ? chunks(s) : blocks(collective, s.ranks); }
  int scratch_for(const RankContext& s) const { return scratch != nullptr ? scratch(s) : 0; }
  int connections_of_channel() const { return connections > 0 ? connections : lanes; }
  int lanes_of_a_block() const { return lanes_of_block > 0 ? lanes_of_block : lanes; }
  int parts_for(const RankContext& s) const { return parts != nullptr ? parts(s) : 1; }
  int orders_for(const RankContext& s) const { return orders != nullptr ? orders(s) : 1; }
  Rank rotation_for(const RankContext& s) const { return rotation != nullptr ? rotation(s) : 0; }
  int repeats_for(const RankContext& s) const { return repeats != nullptr ? repeats(s) : 0; }
};

// Errors (bad input): a schedule from a file that knows only calls in place, or only others.
inline Status check_place(const Algorithm& algorithm, bool in_place) {
  if (!algorithm.written_for || algorithm.written_for->serves(in_place)) return {};
  return bad_input("{} is written for calls {} only", algorithm.name, in_place ? "out of place" : "in place");
}

}  // namespace weft::schedule
