#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "machine/topology.h"

namespace weft::sim {

// What goes wrong while a simulation runs, as data. A value type.
struct Disturbances {
  // Every operation of the rank takes `factor` times as long.
  struct Slow {
    Rank rank;
    double factor;
  };
  // A link that carries nothing for the last part of every period: both directions, from time 0 on.
  struct Flap {
    topology::LinkId link;
    Duration period;
    double down;  // the part of the period, between 0 and 1
  };
  // A link that has another rate from some time on, both directions.
  struct Change {
    topology::LinkId link;
    Duration at;
    double factor;  // of its rate before, above 0
  };
  // Every move ends later by a random time with this mean.
  struct Jitter {
    enum class Kind : std::uint8_t { kNone, kUniform, kExponential };  // uniform: from 0 to twice the mean
    Kind kind = Kind::kNone;
    Duration mean;
    std::uint64_t seed = 1;
  };
  std::vector<Slow> slow;
  std::vector<Flap> flaps;
  std::vector<Change> changes;
  Jitter jitter;

  // Do ranks behave differently although the machine looks alike?
  bool any() const { return !slow.empty() || !flaps.empty() || !changes.empty() || jitter.kind != Jitter::Kind::kNone; }
};

// Draws the delays. Deterministic for a seed.
class Delays {
 public:
  explicit Delays(const Disturbances::Jitter& jitter) : jitter_(jitter), random_(jitter.seed) {}

  bool any() const { return jitter_.kind != Disturbances::Jitter::Kind::kNone; }
  Duration next() {
    const double mean = jitter_.mean.s();
    if (jitter_.kind == Disturbances::Jitter::Kind::kUniform)
      return Duration::seconds(std::uniform_real_distribution<double>(0, 2 * mean)(random_));
    return Duration::seconds(std::exponential_distribution<double>(1 / mean)(random_));
  }

 private:
  Disturbances::Jitter jitter_;
  std::mt19937_64 random_;
};

}  // namespace weft::sim
