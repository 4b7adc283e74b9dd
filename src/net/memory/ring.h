#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::net::memory {

// The places of one protocol's messages in a connection's memory: one behind the other, whatever their sizes, so that
// many small ones fit where eight large ones do (decision 0123). A message lies in one piece: where the largest
// would not fit any more, the next begins at the front again. Both ends count in the same way and exchange nothing.
template <std::size_t kUnit, std::size_t kLargest>
class Ring {
 public:
  static_assert(kLargest % kUnit == 0);
  // `bytes`: a power of two, room for at least two of the largest.
  explicit Ring(std::size_t bytes) : bytes_(bytes) {}

  std::size_t bytes() const { return bytes_; }

  // The place where the next message begins.
  std::size_t place() const { return at_ & (bytes_ - 1); }
  // Bytes so far, those that were left out at the end included.
  std::uint64_t at() const { return at_; }
  // Whether the next message of `bytes` has room, if the first `freed` bytes are free again.
  bool has_room(std::size_t bytes, std::uint64_t freed) const { return at_ + up(bytes) - freed <= bytes_; }
  // Goes on to the message after one of `bytes`.
  void pass(std::size_t bytes) {
    at_ += up(bytes);
    if (const std::size_t left = bytes_ - place(); left < kLargest) at_ += left;
  }

 private:
  static std::size_t up(std::size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

  std::size_t bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace weft::net::memory
