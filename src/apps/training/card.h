#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "apps/kernels/host.h"
#include "base/result.h"

namespace weft::training {

// What a GPU does in a second: peaks and memory from data/catalog, shares of them that kernels reach from
// data/training/cards.json. A value.
struct Card {
  std::string name;
  std::string precision;
  double peak = 0;       // FLOP/s of GEMMs at the precision, dense
  double peak16 = 0;     // FLOP/s at bf16, which attention uses
  double memory = 0;     // bytes
  double bandwidth = 0;  // bytes/s
  int multiprocessors = 0;
  // Shares of the peak that large GEMMs, and of peak16 that fused attention, keep up in training: of such kernels
  // alone, times `sustained` of cards.json; of a user's own table, as it says.
  double gemm = 0;
  double attention_forward = 0, attention_backward = 0;
  double attention_before_2024 = 1;  // of these rates, that kernels of software of 2023 reach (FlashAttention-2)
  double memory_share = 0;           // share of the bandwidth that memory-bound kernels reach
  double launch = 0;                 // s between two kernels
  double reserved = 0;               // bytes outside of the allocator, of a job whose communicators are not counted
  double context = 0;                // bytes of CUDA's context with the kernels that are loaded …
  double context_before_2023 = 0;    // … at once, before CUDA 11.7 loaded them when they are needed
  double connection = 0;             // bytes of a communicator's connection to a peer, per channel
  double nvls = 0;                   // bytes of a communicator for NVLink SHARP, per GPU of it in a node
  // NCCL's channels on the machine that the card is in; none: no machine is known, or none that NCCL runs on.
  struct Channels {
    std::int64_t node = 1;               // GPUs of a node
    double ring_near = 0, ring_far = 0;  // of rings and trees within a node, and of those that cross nodes
    double peer_near = 0, peer_far = 0;  // to each peer of sends and receives in such a communicator
    bool nvls = false;                   // its switches sum
  };
  std::optional<Channels> channels = {};
  // What a framework makes of these kernels (software.h): the share of their rate that layers with and without experts
  // reach, and the seconds that the host takes to launch such a layer's forward pass; backward passes take twice.
  double level = 1, level_experts = 1;
  double host = 0, host_experts = 0;
  kernels::Launch launches = kernels::Launch::kEager;
  bool overlaps() const { return launches != kernels::Launch::kBlocking; }  // a kernel runs beside another
  bool estimated = false;                                                   // shares are those of a similar card
  std::string chip;  // its key in tables of cards: "90", "gfx942"
  std::string
      among;  // on machines of several kinds of cards: which, and what uneven shares would gain; empty: one kind
  std::string fitted;  // what a user's own table was fitted to; empty: as shipped

  // C = A B with A of m × k, B of k × n: tiles in waves over the multiprocessors, but no faster than memory; in
  // seconds.
  double gemm_time(double m, double n, double k) const { return grouped_gemm_time(1, m, n, k); }
  // The same `groups` times, in one kernel.
  double grouped_gemm_time(double groups, double m, double n, double k) const;
  double memory_time(double bytes) const { return bytes / (bandwidth * memory_share) + launch; }
};

// A user's own weft.cards/1, whose entries count more than those that are compiled in (`weft calibrate --train` writes
// one). Errors (bad input): names the file and what is wrong.
struct OwnCards {
  std::string file, text;  // empty: none
};
Status check_cards(const OwnCards& own);

// Was `sustained` fitted to rows of this set of published steps, at this precision?
bool fitted_on(std::string_view set, std::string_view precision);

// `part`: a model of the catalogue, e.g. "H100-SXM5". Errors (bad input): no such part, or no such precision on it.
// Requires: check_cards(own).
Result<Card> load_card(std::string_view part, std::string_view precision, const OwnCards& own = {});

}  // namespace weft::training
