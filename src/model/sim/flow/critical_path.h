#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/sim/flow/max_min.h"

namespace weft::sim {

// What a moment of the critical path was spent on.
enum class Cause : std::uint8_t {
  kLaunch,    // starting the call
  kHop,       // latency of messages and signals; taking them, where the receiver is busy with others
  kLink,      // bytes crossing a link that is shared, or that the sender alone fills
  kChannel,   // bytes crossing at what one channel can send
  kCopy,      // copying and reducing in the rank's own memory, by the channel's block
  kProxy,     // posting messages
  kHost,      // bytes through the host's memory (LL over a network)
  kSlot,      // a sender waits until the receiver has emptied a slot
  kSum,       // a switch of the network sums
  kRest,      // fences after messages
  kStrand,    // waiting for another strand of the rank
  kJitter,    // delays by --fault jitter
  kSlowRank,  // what a rank takes longer because it is slow
  kStaging    // copying into buffers before and after
};
std::string_view name(Cause cause);

// A part of the critical path's time.
struct PathShare {
  Cause cause;
  std::string where;  // the link or the rank; empty: not of one
  Duration time;

  bool operator==(const PathShare&) const = default;
};

// Records what every step of a simulation waited for last, and walks back from the last one: each step began when the
// last thing that it needed was there, so the times of the steps on this path and between them add up to the total.
// Memory: 64 bytes per step. Thread: one at a time.
class CriticalPath {
 public:
  static constexpr std::size_t kMost = 3'000'000;  // steps; beyond, nothing is said
  enum class Edge : std::uint8_t { kOwn, kMessage, kSlot, kSum };
  enum class Part : std::uint8_t { kNothing, kTransfer, kCopy, kProxy, kHost };

  explicit CriticalPath(std::size_t actors, Duration launch) : actors_(actors), launch_(launch) {}

  // A step begins, because of the last wake-up or of the strand's own last step.
  void begin(std::int32_t actor, Duration now, double slowness);
  // Of the step that the actor is at: it moves bytes that take `alone` seconds at `cap` bytes per second; the longest
  // such load counts.
  void loads(std::int32_t actor, MaxMin::Way way, double alone, double cap);
  void delayed(std::int32_t actor, Duration now);  // by jitter, from now on
  void end(std::int32_t actor, Duration now, Part last, Duration fence);
  // What the actor waits for has happened, because of a step that has ended.
  void wake(std::int32_t actor, std::int32_t step, Edge edge);
  // The actor's latest step.
  std::int32_t step_of(std::int32_t actor) const { return actors_[static_cast<std::size_t>(actor)].latest; }

  // Messages of a connection arrive in the order in which they were sent.
  void sent(std::int32_t connection, std::int32_t actor);
  std::int32_t arrived(std::int32_t connection);

  struct Walked {
    std::vector<PathShare> shares;  // the largest first; they add up to the total; empty: too many steps
    struct Piece {
      Duration begin, end;
      std::int32_t actor;
      Cause cause;
    };
    std::vector<Piece> pieces;  // in order of time
  };
  // Requires: the run has ended. `link_of`: the link of a way that limits it, with its capacity. `rank_of`: of an
  // actor.
  struct Limit {
    std::string link;
    double capacity;
  };
  Walked walk(Duration total, const std::function<Limit(MaxMin::Way)>& link_of,
              const std::function<std::int32_t(std::int32_t)>& rank_of) const;

 private:
  struct Step {
    Duration begin, end, fence, jitter;
    std::int32_t actor, by;
    Edge edge;
    Part part = Part::kNothing;
    MaxMin::Way way = -1;
    float alone = 0, cap = 0, slowness = 1;
  };
  struct Actor {
    std::int32_t latest = -1, woken_by = -1;
    Edge edge = Edge::kOwn;
  };

  std::vector<Actor> actors_;
  Duration launch_;
  std::vector<Step> steps_;
  std::vector<std::deque<std::int32_t>> under_way_;  // by connection: the steps that sent
};

}  // namespace weft::sim
