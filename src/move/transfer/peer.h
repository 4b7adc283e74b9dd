#pragma once

#include "move/transfer/line.h"
#include "move/transfer/list.h"
#include "move/transfer/metadata.h"
#include "move/transfer/regions.h"

namespace weft::transfer {

// Another agent, or this one, as requests see it. One generation of it: a restarted agent is another Peer.
struct Peer {
  std::string name;  // for messages: "peer 'decode'", "this agent"
  Metadata metadata;
  bool is_self = false;
  Segment owned;                     // the peer's, mapped
  const Segment* control = nullptr;  // null: only the network reaches it
  std::string unmapped;              // why `control` is null
  std::uint32_t slot = 0;            // this agent's place in it
  UniqueFd process;                  // a pidfd
  std::map<std::uint32_t, std::shared_ptr<const Target>> targets;
  std::uint64_t closings = 0;  // of this agent's own: regions that were deregistered
  std::string no_tcp, no_ucx;  // why not; empty: `line` may use it
  std::unique_ptr<Line> line;
  std::optional<Error> gone;  // replaced or forgotten

  ~Peer();
  // From here on it can serve no request, for this reason. Requires: the caller holds it.
  void leave(Error why) {
    gone = std::move(why);
    if (line != nullptr) line->close();
  }
  // Why it can serve no request any more; nothing: it can. One system call.
  std::optional<Error> problem() const;
};

struct MeetOptions {
  std::string self;
  net::link::Key key{};
  std::uint64_t process = 0;
  Network network = Network::kAny;
  bool only_network = false;
  std::shared_ptr<net::ucx::Context> ucx = nullptr;  // null: `no_ucx` says why
  std::string no_ucx = {};
  std::function<Result<std::shared_ptr<Gpu>>()> gpus = {};  // of the agent, opened when a peer has memory of one
  bool as_strangers = false;                                // agents of this process are reached as those of others are
  Costs costs = {};
  std::string secure = {};  // WEFT_SECURE, which forbids the network; empty: off
};

// Loads UCX where these options use it. Errors: they ask for it, and it is not there.
Status open_ucx(MeetOptions& options);
// Reaches the agent of this metadata. Errors: it cannot be reached, naming it and every path's reason.
Result<std::shared_ptr<Peer>> meet(const Metadata& metadata, const MeetOptions& options);
// Regions that were registered since. Errors: as above.
Status add_targets(Peer& peer, const Metadata& metadata, const MeetOptions& options);

}  // namespace weft::transfer
