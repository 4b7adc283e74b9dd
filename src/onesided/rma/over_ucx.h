#pragma once

#include <atomic>
#include <vector>

#include "net/ucx/remote_memory.h"
#include "onesided/rma/agent.h"

namespace weft::net::rma {

// One-sided operations over UCX: it puts and gets; words that are changed atomically go to the peers' servers, so that
// they mix with what peers' processors do to them. What was put at a peer is there before a word of it changes.
class UcxAgent final : public pgas::Agent {
 public:
  // `words`: reaches the same peers. Requires: `memory` is connected.
  UcxAgent(const pgas::Space& space, std::unique_ptr<ucx::RemoteMemory> memory, std::shared_ptr<Agent> words)
      : space_(space),
        memory_(std::move(memory)),
        words_(std::move(words)),
        puts_(static_cast<std::size_t>(space.ranks())) {}

  void put(Rank peer, pgas::Place to, std::span<const std::byte> from) override;
  void get(Rank peer, pgas::Place from, std::span<std::byte> to) override;
  void update(Rank peer, pgas::Place at, std::size_t bytes, pgas::AtomicOp op, std::uint64_t operand) override;
  std::uint64_t fetch(Rank peer, pgas::Place at, std::size_t bytes, pgas::AtomicOp op, std::uint64_t operand,
                      std::uint64_t compare) override;
  void fence() override;
  void quiet() override;

 private:
  void require(const Status& done, const char* call) const;
  void arrive(Rank peer);

  const pgas::Space& space_;
  std::unique_ptr<ucx::RemoteMemory> memory_;
  std::shared_ptr<Agent> words_;
  struct Puts {
    std::atomic<std::uint64_t> begun = 0, there = 0;  // `there`: at least this many are known to be there
  };
  std::vector<Puts> puts_;  // by peer
};

}  // namespace weft::net::rma
