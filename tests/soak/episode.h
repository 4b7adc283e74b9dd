#pragma once

#include <cstdint>
#include <string>

#include "weft/types.h"

namespace weft::soak {

// One job: ranks that make calls without pause on all of them and on random subsets, while some are killed or stopped
// and new ones join. Everything but the moment at which a signal strikes follows from the seed.
struct Episode {
  enum class Over { kThreads, kShm, kTcp, kMixed, kUcx, kMixedUcx };  // from kUcx on: needs UCX
  Over over = Over::kShm;
  Rank ranks = 4;
  std::int64_t calls = 1000;  // that every rank makes
  int kills = 0, stops = 0;   // not among threads
  std::uint64_t seed = 1;

  static Episode draw(std::uint64_t seed, std::int64_t calls);
  std::string text() const;
};

struct Outcome {
  std::int64_t checked = 0;  // collectives, counted once for all their ranks
  int shrunk = 0, grown = 0;
  std::string wrong;  // empty: nothing
};

Outcome run(const Episode& episode);

}  // namespace weft::soak
