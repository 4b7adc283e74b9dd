#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "exec/fabric/posted.h"
#include "plan/protocol/capabilities.h"
#include "plan/protocol/operation.h"
#include "weft/types.h"

namespace weft::fabric {

using weft::Scalar;  // what a rank's contribution is multiplied by

// Combines: value = source 0 ⊕ source 1 ⊕ … elementwise, stored to every destination. A destination may be one of the
// sources; ranges do not overlap otherwise. With one source it copies. `bytes` is whole elements. `scales`: one per
// source, by which it is multiplied first; null: none is.
using Fold = void (*)(std::byte* const* destinations, int destination_count, const std::byte* const* sources,
                      int source_count, Bytes bytes, const Scalar* scales);

// A call as its caller describes it, for messages about disagreements. The fabric does not look inside.
struct Description {
  std::uint64_t count = 0;   // elements
  std::uint64_t fields = 0;  // api/session/description.h
  bool operator==(const Description&) const = default;
};

// The first call in which this rank and a peer differ.
struct Disagreement {
  Rank peer = -1;
  std::uint64_t number = 0;                         // of the call among those that all ranks make, from 1; 0: not known
  std::optional<Description> own = {}, peers = {};  // as far as known
};

// One collective as a fabric sees it: the memories that operations name, and the arithmetic.
// Owns: nothing; in and out must stay valid until all strands have finished.
struct Call {
  const std::byte* in = nullptr;  // first: a call that was made ready gets its buffers last, and is copied at once
  std::byte* out = nullptr;
  protocol::Protocol protocol = protocol::Protocol::kSimple;
  Fold fold = nullptr;
  std::optional<Scalar> scale = {};  // of this rank's input, wherever it is read
  Bytes lines_up_to = 0;             // messages of no more bytes, all of them whole, cross by LL64 instead
  bool everybody = true;             // all ranks make this call; otherwise only those that the operations name
  std::uint32_t reduction = 0;       // names the fold to other processes
  bool publishes = false;            // peers will load and store in and out directly
  bool streams_slots = false;        // large messages go into slots past this core's caches (decisions 0078, 0129) …
  bool tries_slots = false;          // … or not, as each sender finds to be faster while they go (decision 0265) …
  bool streams_scratch = false;      // … and large parts into scratch (decision 0079)
  Description description = {};
  // Of this call and all before it on the communicator: equal on all ranks if they have called the same things. Travels
  // with every message and signal, and is checked before peers' memory is touched. Calls that only some ranks make have
  // none: their messages' tags say what both ends must agree on. Last, and thereby copied alone: it is stored just
  // before, and a wider load would wait until that store and all before it have left the core.
  std::uint64_t signature = 0;
};
static_assert(sizeof(Call) % 16 == 8, "the signature would be copied together with its neighbour");

using protocol::Capabilities;

// The act of a rank that broke its communicator.
enum class Cause : std::uint8_t { kFailed, kAborted, kDiffers, kDied, kLeft, kShrinks, kTimedOut, kCircle };
constexpr std::string_view word(Cause cause) {
  if (cause == Cause::kDiffers) return "called another collective, size or type";
  if (cause == Cause::kDied) return "has ended";
  if (cause == Cause::kLeft) return "has left: it dropped or finalized the communicator";
  if (cause == Cause::kShrinks) return "has left: it called shrink()";
  if (cause == Cause::kTimedOut) return "kept another rank waiting for longer than the timeout";
  if (cause == Cause::kCircle)
    return "found that ranks wait for each other in a circle; nobody can know who is at fault";
  return cause == Cause::kAborted ? "aborted" : "failed";
}
// Why the communicator of rank `self` is broken. If `self` is the rank at fault, the text says "this one".
// `words`: what a rank that has aborted said of itself.
inline std::string broken_text(Rank culprit, Cause cause, Rank self, std::string_view words = {}) {
  if (culprit != self)
    return fmt::format("the communicator is broken: rank {} {}", culprit,
                       cause == Cause::kAborted && !words.empty() ? words : word(cause));
  if (cause == Cause::kAborted) return "the communicator is broken: this rank has aborted";
  return fmt::format("the communicator is broken: another rank waited for rank {}, this one, in vain", self);
}
// The same where nobody can know which of two ranks deviated that called different things.
inline std::string differ_text(Rank one, Rank other) {
  return fmt::format(
      "the communicator is broken: rank {} and rank {} called different collectives, sizes or types; "
      "this rank cannot know which of them deviated",
      one, other);
}
// The error code of the other ranks' calls.
constexpr Code code(Cause cause) {
  if (cause == Cause::kDied) return Code::kPeerDied;
  if (cause == Cause::kLeft || cause == Cause::kShrinks) return Code::kPeerLeft;
  if (cause == Cause::kTimedOut || cause == Cause::kCircle) return Code::kTimeout;
  return cause == Cause::kDiffers ? Code::kMismatch : Code::kAborted;
}

// Is this source multiplied by its rank's scale, where calls have one? Inputs are, wherever they are; what was made of
// them is not again.
inline bool scales(const protocol::End& source) {
  using Kind = protocol::End::Kind;
  return source.kind != Kind::kMessage && source.kind != Kind::kAggregation && source.memory == protocol::Memory::kIn;
}

// The seam: what the interpreter asks of the world, as one rank. Completion levels are the same everywhere:
//   ready     every source message has arrived, every destination has a free slot, a waited-for signal is there
//   done      (local completion) sources may be changed, received slots are free again, destinations here are written
//   visible   what was done before a signal is seen by the peer after its wait; a message is seen when it is ready
// Thread: all calls of one endpoint from one thread at a time.
template <class E>
concept Endpoint = requires(E& e, const E& c, int strand, const protocol::Operation& operation, const Call& call) {
  { c.capabilities() } -> std::same_as<const Capabilities&>;
  { c.rank() } -> std::same_as<Rank>;
  // Starts a collective; all strands of the one before have finished.
  {e.begin(call)};
  { e.ready(strand, operation) } -> std::same_as<bool>;
  // Requires: ready. Executes the operation; kPending: finished(strand) returns true once it is done.
  { e.post(strand, operation) } -> std::same_as<Posted>;
  { e.finished(strand) } -> std::same_as<bool>;
};

}  // namespace weft::fabric
