#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "exec/fabric/fabric.h"
#include "weft/result.h"

// The demands of exec::WorldExecutor on a fabric in real time: every function that it calls, so that a new fabric that
// compiles is complete. Threads: those of fabric::Endpoint.
namespace weft::fabric {

template <class E>
concept RealEndpoint = Endpoint<E> &&
    requires(E& e, const E& c, Call& call, Rank peer, int strand, const protocol::Operation& operation,
             const void* memory, const std::byte* from, Bytes bytes) {
  // May peers be given this memory's address?
  { c.reaches(memory, bytes) } -> std::same_as<bool>;
  // Puts another call in the place of the one that is running, and back.
  e.exchange_call(call);
  // Does something sent by exchange_call()'s call still read these bytes?
  { e.reads(from, bytes) } -> std::same_as<bool>;
  { e.has_met(peer) } -> std::same_as<bool>;
  { e.has_left(peer) } -> std::same_as<bool>;
  // The peer for whom a strand waits at an operation that is not ready; -1: none.
  { e.blocker(strand, operation) } -> std::same_as<Rank>;
  // A peer for whom sources that a finished program named are still being read; -1: none.
  { e.unsettled() } -> std::same_as<Rank>;
  // A peer that was seen to be in another call; -1: none.
  { c.mismatched() } -> std::same_as<Rank>;
  // Looks whether a peer that keeps this rank waiting has made the same calls.
  e.compare_calls(peer);
  { c.disagreement() } -> std::same_as<Disagreement>;
  // Will the peer that is in another call say why it left this one?
  { e.awaits_reason(peer) } -> std::same_as<bool>;
  // A peer that has sent a message which nobody has received; -1: none.
  { e.unread() } -> std::same_as<Rank>;
};

template <class P>
concept WaitsFor = requires(P& p, const P& c, const std::function<std::vector<Rank>()>& awaited, Rank culprit,
                            Cause cause, const std::string& words, std::chrono::milliseconds timeout) {
  // Something has moved: waiting begins anew.
  p.reset();
  // Nothing has moved: without waiting, and with. Errors blame the communicator.
  { p.look(awaited) } -> std::same_as<Status>;
  { p.pause(awaited) } -> std::same_as<Status>;
  // What is wrong by now, whether or not this rank waits.
  { p.health() } -> std::same_as<Status>;
  p.break_off(culprit, cause);
  p.say_why(words);
  p.set_timeout(timeout);
  { c.timeout() } -> std::same_as<std::chrono::milliseconds>;
};

// A rank of a fabric, with what waits for its peers.
template <class W>
concept RealWorld = RealEndpoint<typename W::Endpoint> && requires(W& w, const W& c, void* memory, Bytes bytes) {
  { (w.endpoint) } -> std::same_as<typename W::Endpoint&>;
  requires WaitsFor<std::remove_reference_t<decltype((w.wait_policy))>>;
  { c.ranks() } -> std::same_as<Rank>;
  // Memory that peers reach.
  { w.allocate(bytes) } -> std::same_as<Result<void*>>;
  w.deallocate(memory);
};

// Beyond the heap of its own, and where ranks vote: worlds of processes that share a segment.
template <class W>
concept GrowsMemory = RealWorld<W> && requires(W& w, void* memory, Bytes bytes) {
  { w.allocate_beyond(bytes) } -> std::same_as<Result<void*>>;
  w.deallocate_beyond(memory, bytes);
  w.endpoint.segment().header().votes;
};

// Peers' memory is loaded from: a break that came during the call may have changed it.
template <class W>
concept LoadsPeers = RealWorld<W> && requires(W& w) {
  w.endpoint.segment();
  static_cast<bool>(w.wait_policy.broken());
};

}  // namespace weft::fabric
