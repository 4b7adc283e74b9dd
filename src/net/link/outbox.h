#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

namespace weft::net::link {

// Bytes that wait to be sent, in order, in memory that is not cleared before it is filled.
class Outbox {
 public:
  std::size_t waiting() const { return end_ - sent_; }
  const std::byte* data() const { return memory_.get() + sent_; }
  // Where `bytes` more bytes are to be written, valid until the next call.
  std::byte* grow(std::size_t bytes) {
    if (sent_ == end_) sent_ = end_ = 0;
    if (end_ + bytes > capacity_) make_room(bytes);
    end_ += bytes;
    return memory_.get() + end_ - bytes;
  }
  template <class T>
  void put(const T& value) {
    std::memcpy(grow(sizeof value), &value, sizeof value);
  }
  // Takes back the last bytes. Requires: bytes <= waiting().
  void shrink(std::size_t bytes) { end_ -= bytes; }
  // The first bytes have been sent. Requires: bytes <= waiting().
  void take(std::size_t bytes) { sent_ += bytes; }

 private:
  void make_room(std::size_t bytes) {
    const std::size_t kept = waiting();
    if (kept + bytes > capacity_ || sent_ < kept) {  // moving within the memory would cost more than it saves
      capacity_ = std::max(kept + bytes, 2 * capacity_);
      auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity_);
      std::memcpy(larger.get(), data(), kept);
      memory_ = std::move(larger);
    } else {
      std::memcpy(memory_.get(), data(), kept);
    }
    sent_ = 0;
    end_ = kept;
  }
  std::unique_ptr<std::byte[]> memory_ = std::make_unique_for_overwrite<std::byte[]>(4096);
  std::size_t capacity_ = 4096, sent_ = 0, end_ = 0;
};

}  // namespace weft::net::link
