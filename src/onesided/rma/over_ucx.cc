#include "onesided/rma/over_ucx.h"

namespace weft::net::rma {

using pgas::AtomicOp;
using pgas::Place;

void UcxAgent::require(const Status& done, const char* call) const {
  if (!done) space_.misuse(call, done.error().message);
}

void UcxAgent::put(Rank peer, Place to, std::span<const std::byte> from) {
  // The standard has words of up to eight bytes stored whole; who waits for one looks at it with a single load.
  if (from.size() <= sizeof(Word)) {
    arrive(peer);
    return words_->put(peer, to, from);
  }
  ++puts_[static_cast<std::size_t>(peer)].begun;
  require(memory_->put(peer, to.region, to.offset, from), "put");
}

void UcxAgent::get(Rank peer, Place from, std::span<std::byte> to) {
  require(memory_->get(peer, from.region, from.offset, to), "get");
}

// What was put there is there.
void UcxAgent::arrive(Rank peer) {
  Puts& puts = puts_[static_cast<std::size_t>(peer)];
  const std::uint64_t begun = puts.begun;
  if (puts.there >= begun) return;
  require(memory_->flush(peer), "put");
  puts.there = begun;
}

void UcxAgent::update(Rank peer, Place at, std::size_t bytes, AtomicOp op, std::uint64_t operand) {
  arrive(peer);
  words_->update(peer, at, bytes, op, operand);
}

std::uint64_t UcxAgent::fetch(Rank peer, Place at, std::size_t bytes, AtomicOp op, std::uint64_t operand,
                              std::uint64_t compare) {
  arrive(peer);
  return words_->fetch(peer, at, bytes, op, operand, compare);
}

// Words that are on their way to a server may be overtaken by what UCX carries.
void UcxAgent::fence() {
  words_->quiet();
  require(memory_->fence(), "fence");
}

void UcxAgent::quiet() {
  require(memory_->flush_all(), "quiet");
  words_->quiet();
}

}  // namespace weft::net::rma
