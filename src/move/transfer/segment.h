#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "move/transfer/fence.h"
#include "net/link/socket.h"

// The memory that peers on this machine share of an agent: one segment without a name, which disappears with its last
// process. Peers find it by the owner's process and descriptor, and know it by its nonce.
//
//   Header | Slot x 64 | PageWord x pages
//
// A fresh segment is all zero, which is a valid initial state of slots and pages.
namespace weft::transfer {

inline constexpr std::uint64_t kSegmentMagic = 0x31667865'66657702;         // changes with the format
inline constexpr std::uint32_t kSlots = 64, kServerSlot = 0, kOwnSlot = 1;  // the others are peers'
inline constexpr std::uint64_t kRing = 16 << 10;                            // bytes of notifications under way

using Nonce = std::array<std::uint8_t, 16>;  // a generation of an agent: fresh with every open()

// The identity of this process, distinct from that of a later one of the same number. 0: none.
std::uint64_t this_process();
bool process_ended(std::uint64_t process);
inline std::int32_t pid_of(std::uint64_t process) { return static_cast<std::int32_t>(process >> 32); }

struct alignas(64) Header {
  std::uint64_t magic;
  Nonce nonce;
  std::uint64_t pages;
  std::atomic<std::uint32_t> closed;  // 1: the agent has been closed
};

// One peer's place. Only the peer writes pin, tail and the ring; only the owner head. The peer stores `left` last; the
// owner empties the ring and then makes the slot free.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> owner;  // a process; 0: free
  std::atomic<std::uint32_t> left;
  alignas(64) PinWord pin;
  alignas(64) std::atomic<std::uint64_t> tail;  // bytes ever written
  alignas(64) std::atomic<std::uint64_t> head;  // bytes ever read
  alignas(64) std::byte ring[kRing];
};

// Owns: a mapping of memory that other processes can map, too.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping();
  Mapping(Mapping&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  Mapping& operator=(Mapping&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct SharedMemory {
  UniqueFd fd;
  Mapping mapping;
};
// Zeroed memory without a name. `touched`: with all its pages. Errors: kNoResources.
Result<SharedMemory> make_shared_memory(Bytes bytes, bool touched);
// The memory behind another process's descriptor. Errors: kUnsupported, with what the kernel says.
Result<Mapping> map_of_process(std::int32_t pid, int fd, Bytes bytes, bool touched);

class Segment {
 public:
  Segment() = default;
  explicit Segment(Mapping mapping) : mapping_(std::move(mapping)) {}
  static Bytes bytes_for(std::uint64_t pages) {
    return static_cast<Bytes>(sizeof(Header) + kSlots * sizeof(Slot) + pages * sizeof(PageWord));
  }
  bool open() const { return mapping_.data() != nullptr; }
  Header& header() const { return *reinterpret_cast<Header*>(mapping_.data()); }
  Slot& slot(std::uint32_t i) const { return reinterpret_cast<Slot*>(mapping_.data() + sizeof(Header))[i]; }
  PageWord& page(std::uint64_t i) const {
    return reinterpret_cast<PageWord*>(mapping_.data() + sizeof(Header) + kSlots * sizeof(Slot))[i];
  }

 private:
  Mapping mapping_;
};

// Appends a message to the slot's ring. False: no room.
bool push(Slot& slot, std::string_view from, std::string_view bytes);
// Takes the next message. False: there is none. A ring that makes no sense is emptied.
bool pop(Slot& slot, std::string& from, std::string& bytes);

}  // namespace weft::transfer
