#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/device_mark.h"

// Puts that a kernel asks for and a thread of the host makes: GPU-initiated networking by a proxy. The kernel writes
// requests into a ring in memory that both reach (pinned memory of the host); the proxy thread takes them in order and
// puts over whatever transport joins the ranks.
//   A request is there when its `ready` is its ticket + 1: the writer stores that last, with release. `taken` is the
// proxy's: entries below it may be written anew. `done`: requests below it are in the peers' memory.
namespace weft::exec::device {

struct PostRequest {
  std::byte* to = nullptr;          // symmetric: the peer's copy is written
  const std::byte* from = nullptr;  // until the request is done
  std::uint64_t bytes = 0;
  std::uint64_t* signal = nullptr;  // symmetric; null: none. It grows by `value` after the data
  std::uint64_t value = 0;
  std::uint64_t peer = 0;
};

struct PostQueue {
  static constexpr std::uint64_t kEntries = 64;
  struct Entry {
    std::uint64_t ready = 0;
    PostRequest request;
  };
  alignas(64) std::uint64_t next = 0;
  alignas(64) std::uint64_t taken = 0;
  alignas(64) std::uint64_t done = 0;
  alignas(64) Entry entries[kEntries];
};

inline constexpr std::uint64_t kNotPosted = ~std::uint64_t{0};

// By one thread of a kernel; many may post at once. Looks at most `looks` times whether the ring has room. Returns the
// request's ticket; kNotPosted: there was none in time, and the queue cannot be used any more.
template <class Machine>
WEFT_DEVICE std::uint64_t post(Machine& machine, PostQueue& queue, const PostRequest& request, std::uint64_t looks) {
  const std::uint64_t ticket = machine.fetch_add(&queue.next, 1);
  while (ticket >= machine.load_acquire(&queue.taken) + PostQueue::kEntries)
    if (looks-- == 0) return kNotPosted;
  PostQueue::Entry& entry = queue.entries[ticket % PostQueue::kEntries];
  machine.store(&entry.request, request);
  machine.store_release(&entry.ready, ticket + 1);
  return ticket;
}

// Is the request in its peer's memory? Looks at most `looks` times.
template <class Machine>
WEFT_DEVICE bool posted(Machine& machine, const PostQueue& queue, std::uint64_t ticket, std::uint64_t looks) {
  while (machine.load_acquire(&queue.done) <= ticket)
    if (looks-- == 0) return false;
  return true;
}

// The proxy's side: makes the requests that are there, and waits until they have arrived. Returns how many. World:
// put, put_signal and quiet of weft::pgas::World. Thread: one for a queue.
template <class World, class Add>
std::uint64_t serve_posts(PostQueue& queue, World& world, Add add) {
  const std::uint64_t first = queue.taken;
  for (;;) {
    const PostQueue::Entry& entry = queue.entries[queue.taken % PostQueue::kEntries];
    if (std::atomic_ref(const_cast<std::uint64_t&>(entry.ready)).load(std::memory_order_acquire) != queue.taken + 1)
      break;
    const PostRequest& r = entry.request;
    const auto peer = static_cast<std::int32_t>(r.peer);
    if (r.signal != nullptr)
      world.put_signal(r.to, r.from, r.bytes, r.signal, r.value, add, peer);
    else
      world.put(r.to, r.from, r.bytes, peer);
    std::atomic_ref(queue.taken).store(queue.taken + 1, std::memory_order_release);
  }
  if (queue.taken == first) return 0;
  world.quiet();
  std::atomic_ref(queue.done).store(queue.taken, std::memory_order_release);
  return queue.taken - first;
}

}  // namespace weft::exec::device
