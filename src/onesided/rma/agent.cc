#include "onesided/rma/agent.h"

namespace weft::net::rma {

using pgas::AtomicOp;
using pgas::Place;

Result<std::shared_ptr<Agent>> Agent::open(const pgas::Space& space, std::unique_ptr<Server> server,
                                           const std::vector<link::Address>& peers, const link::Key& key,
                                           const link::Sealing& sealing, std::chrono::milliseconds timeout) {
  std::shared_ptr<Agent> agent(new Agent(space, std::move(server), peers.size()));
  for (Rank r = 0; r < space.ranks(); ++r)
    if (r != space.rank())
      WEFT_CHECK(agent->line(r).open(peers[static_cast<std::size_t>(r)], key, sealing, space.rank(), r, timeout));
  return agent;
}

void Agent::require(const Status& done, const char* call) const {
  if (!done) space_.misuse(call, done.error().message);
}

void Agent::put(Rank peer, Place to, std::span<const std::byte> from) {
  require(line(peer).ask({.kind = Request::Kind::kPut,
                          .region = to.region,
                          .offset = to.offset,
                          .bytes = static_cast<std::int64_t>(from.size())},
                         from, {}),
          "put");
}

void Agent::get(Rank peer, Place from, std::span<std::byte> to) {
  require(line(peer).ask({.kind = Request::Kind::kGet,
                          .region = from.region,
                          .offset = from.offset,
                          .bytes = static_cast<std::int64_t>(to.size())},
                         {}, to),
          "get");
}

void Agent::update(Rank peer, Place at, std::size_t bytes, AtomicOp op, std::uint64_t operand) {
  require(line(peer).ask({.kind = Request::Kind::kUpdate,
                          .op = static_cast<std::uint8_t>(op),
                          .region = at.region,
                          .offset = at.offset,
                          .bytes = static_cast<std::int64_t>(bytes),
                          .operand = operand},
                         {}, {}),
          "atomic");
}

std::uint64_t Agent::fetch(Rank peer, Place at, std::size_t bytes, AtomicOp op, std::uint64_t operand,
                           std::uint64_t compare) {
  Word old = 0;
  require(line(peer).ask({.kind = Request::Kind::kFetch,
                          .op = static_cast<std::uint8_t>(op),
                          .region = at.region,
                          .offset = at.offset,
                          .bytes = static_cast<std::int64_t>(bytes),
                          .operand = operand,
                          .compare = compare},
                         {}, std::as_writable_bytes(std::span(&old, 1))),
          "atomic");
  return old;
}

// All peers at once: each takes a round trip. Every line is locked in the first loop and unlocked in the second.
void Agent::quiet() WEFT_UNCHECKED_LOCKING {
  for (Rank r = 0; r < space_.ranks(); ++r)
    if (r != space_.rank()) require(line(r).begin_flush(), "quiet");
  for (Rank r = 0; r < space_.ranks(); ++r)
    if (r != space_.rank()) require(line(r).end_flush(), "quiet");
}

void Agent::end(Rank peer, int status) {
  (void)line(peer).ask({.kind = Request::Kind::kEnd, .bytes = status}, {}, {});  // it may have ended by itself
}

}  // namespace weft::net::rma
