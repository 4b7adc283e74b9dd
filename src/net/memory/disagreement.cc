#include <algorithm>

#include "net/memory/endpoint.h"

namespace weft::net::memory {

// The first call that the boards and signatures of both ranks still have and in which they differ.
fabric::Disagreement Endpoint::disagreement() const {
  fabric::Disagreement found{.peer = mismatched_};
  if (mismatched_ < 0) return found;
  const RankBlock &ours = segment_.block(rank_), &theirs = segment_.block(mismatched_);
  const std::uint64_t both = std::min(theirs.latest_call(), calls_);
  const std::uint64_t kept = std::max(theirs.latest_call(), calls_);
  const auto differ = [&](std::uint64_t number) {
    return ours.signatures[number % kSignatures].load(std::memory_order_relaxed) !=
           theirs.signatures[number % kSignatures].load(std::memory_order_acquire);
  };
  std::uint64_t number = both;
  while (number > 1 && number - 1 + kSignatures > kept + 1 && differ(number - 1)) --number;
  if (number == 0) return found;
  found.number = number;
  const auto description = [&](const RankBlock& block) -> std::optional<fabric::Description> {
    const Board& board = block.boards[number % kBoards];
    if (board.call.load(std::memory_order_acquire) != number) return std::nullopt;
    const fabric::Description described{board.count.load(std::memory_order_relaxed),
                                        board.fields.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (board.call.load(std::memory_order_relaxed) != number) return std::nullopt;
    return described;
  };
  found.own = description(ours);
  found.peers = description(theirs);
  return found;
}

}  // namespace weft::net::memory
