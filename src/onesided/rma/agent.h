#pragma once

#include <deque>

#include "onesided/rma/line.h"
#include "onesided/rma/server.h"

namespace weft::net::rma {

// One-sided operations over TCP: a line to every peer, and a server for theirs. A peer that has gone ends the process.
class Agent final : public pgas::Agent {
 public:
  // `peers`: by rank, where their servers listen. `server` has begun to serve. Errors: of Line::open.
  static Result<std::shared_ptr<Agent>> open(const pgas::Space& space, std::unique_ptr<Server> server,
                                             const std::vector<link::Address>& peers, const link::Key& key,
                                             const link::Sealing& sealing, std::chrono::milliseconds timeout);

  void put(Rank peer, pgas::Place to, std::span<const std::byte> from) override;
  void get(Rank peer, pgas::Place from, std::span<std::byte> to) override;
  void update(Rank peer, pgas::Place at, std::size_t bytes, pgas::AtomicOp op, std::uint64_t operand) override;
  std::uint64_t fetch(Rank peer, pgas::Place at, std::size_t bytes, pgas::AtomicOp op, std::uint64_t operand,
                      std::uint64_t compare) override;
  void fence() override {}  // requests to a peer are executed in order
  void quiet() override;

  bool has_left(Rank peer) const { return server_->has_left(peer); }
  // Ends the peer's process with this exit status, if it is there.
  void end(Rank peer, int status);

 private:
  Agent(const pgas::Space& space, std::unique_ptr<Server> server, std::size_t ranks)
      : space_(space), server_(std::move(server)), lines_(ranks) {}
  Line& line(Rank peer) { return lines_[static_cast<std::size_t>(peer)]; }
  void require(const Status& done, const char* call) const;

  const pgas::Space& space_;
  std::unique_ptr<Server> server_;
  std::deque<Line> lines_;  // the own one is never opened
};

}  // namespace weft::net::rma
