#pragma once

#include <cstddef>

#include "exec/device/endpoint.h"

// Messages between single ranks, all at the same time: the arguments of one launch, and the code of a block. A block
// runs several strands in turns, whichever is not waiting, so that as many messages as there are get on with as few
// blocks as fit on a GPU: whatever the order of the messages is here and there, none holds up another.
namespace weft::exec::device {

inline constexpr int kMostMessages = 512;  // of one launch
// Strands of one block. A launch has a block for every queue, or as many as a rank has; so a block has at most as many
// strands as connections share a queue, or half as many as there are queues, or, if it is alone, as there are queues.
inline constexpr int kMostPlaces = kMostMessages;

struct Message {
  std::byte* data;
  std::int64_t bytes;  // more than 0
  std::int32_t peer;
  std::int32_t next;  // after this one to, or from, the same peer: its index; -1: none
  std::uint16_t tag;
  std::uint8_t sends, spare[5];
};
static_assert(sizeof(Message) == 32);

// The exchange of one rank: queues of messages, one for each peer and direction. Their first messages stand side by
// side at `first`.
struct ExchangePart {
  Frame frame;  // without a program
  std::int32_t first = 0, queues = 0;
};

struct Exchange {
  std::int32_t count = 0, blocks = 0;  // ranks, and blocks of each
  ExchangePart of[kMostTogether];
  Message messages[kMostMessages];
};
static_assert(sizeof(Exchange) <= 32764, "what a GPU of compute capability 7.0 or more takes as a kernel's parameters");

// Connections that the slices of a message take in turns: half of a rank's blocks send while the others receive.
constexpr int channels_of_exchange(const Geometry& geometry) { return geometry.strands > 1 ? geometry.strands / 2 : 1; }
constexpr std::int64_t slices_of(const Message& m, const Geometry& geometry) {
  return (m.bytes + geometry.slot_bytes - 1) / geometry.slot_bytes;
}

// What the threads of a block share, in its shared memory: the operation that they are at, and of every strand its
// message (-1: it is done) and slice.
struct ExchangeMemory {
  struct Place {
    std::int32_t message, slice;
  };
  FlatOperation operation;
  FlatEnd ends[2];
  Place places[kMostPlaces];
};

// One block of one rank. Strand v is connection v / queues of queue v % queues, and block v % blocks runs it.
template <class Machine>
class ExchangeBlock {
 public:
  WEFT_DEVICE ExchangeBlock(Machine& machine, ExchangeMemory& memory, const Exchange& all, const ExchangePart& part,
                            int block)
      : machine_(machine),
        memory_(memory),
        all_(all),
        part_(part),
        block_(block),
        endpoint_(machine, part.frame, block) {}

  // All threads of the block call it. Until all its messages have crossed, or it gives up.
  WEFT_DEVICE void run() {
    const int strands = part_.queues * channels_of_exchange(part_.frame.geometry);
    const int places = strands <= block_ ? 0 : (strands - block_ + all_.blocks - 1) / all_.blocks;
    for (int p = machine_.thread(); p < places; p += machine_.threads()) {
      memory_.places[p] = {part_.first + strand_of(p) % part_.queues, connection_of(p)};
      skip_missing(p);
    }
    machine_.barrier();
    for (;;) {
      int waits = -1;  // the first place that has something left
      bool moved = false;
      for (int p = 0; p < places; ++p) {
        if (memory_.places[p].message < 0) continue;
        if (waits < 0) waits = p;
        moved = step(p) || moved;
      }
      if (waits < 0) return endpoint_.end_call();
      if (moved) continue;
      make_operation(waits);
      if (endpoint_.gives_up(memory_.operation)) return;
    }
  }

 private:
  WEFT_DEVICE int strand_of(int place) const { return block_ + place * all_.blocks; }
  WEFT_DEVICE int connection_of(int place) const { return strand_of(place) / part_.queues; }

  // The next slice of a strand, if it need not wait.
  WEFT_DEVICE bool step(int place) {
    make_operation(place);
    if (!endpoint_.ready(block_, memory_.operation)) return false;
    endpoint_.post(block_, memory_.operation);
    if (machine_.thread() == 0) {
      memory_.places[place].slice += channels_of_exchange(part_.frame.geometry);
      skip_missing(place);
    }
    machine_.barrier();
    return true;
  }
  // To the next message while this one has no such slice.
  WEFT_DEVICE void skip_missing(int place) {
    ExchangeMemory::Place& at = memory_.places[place];
    while (at.message >= 0 && at.slice >= slices_of(all_.messages[at.message], part_.frame.geometry))
      at = {all_.messages[at.message].next, connection_of(place)};
  }
  WEFT_DEVICE void make_operation(int place) {
    if (machine_.thread() == 0) {
      const ExchangeMemory::Place at = memory_.places[place];
      const Message& m = all_.messages[at.message];
      const std::int64_t slot = part_.frame.geometry.slot_bytes, begin = at.slice * slot;
      const FlatEnd message{.offset = 0,
                            .peer = m.peer,
                            .strand = static_cast<std::int16_t>(connection_of(place)),
                            .tag = m.tag,
                            .kind = FlatEnd::kMessage,
                            .memory = 0,
                            .last = 1,
                            .spare = {}};
      // Relative to the frame's buffers, which are the first message's.
      const std::int64_t offset =
          reinterpret_cast<std::int64_t>(m.data) - reinterpret_cast<std::int64_t>(part_.frame.out) + begin;
      const FlatEnd local{.offset = offset,
                          .peer = -1,
                          .strand = 0,
                          .tag = 0,
                          .kind = FlatEnd::kLocal,
                          .memory = FlatEnd::kOut,
                          .last = 1,
                          .spare = {}};
      memory_.ends[0] = m.sends != 0 ? local : message;
      memory_.ends[1] = m.sends != 0 ? message : local;
      memory_.operation = {.bytes = m.bytes - begin < slot ? m.bytes - begin : slot,
                           .peer = -1,
                           .ends = offsetof(ExchangeMemory, ends) - offsetof(ExchangeMemory, operation),
                           .sources = 1,
                           .destinations = 1,
                           .strand = -1,
                           .kind = FlatOperation::kMove,
                           .spare = 0};
    }
    machine_.barrier();
  }

  Machine& machine_;
  ExchangeMemory& memory_;
  const Exchange& all_;
  const ExchangePart& part_;
  const int block_;
  BlockEndpoint<std::uint64_t, Machine> endpoint_;  // of any type: nothing is calculated
};

}  // namespace weft::exec::device
