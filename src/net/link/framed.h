#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>

#include "net/link/bytes.h"

namespace weft::net::link {

enum class FrameState { kMore, kWhole, kOver };

// Reads messages that are a head of fixed size and a body, as their bytes come.
template <class Head>
class Framed {
  static_assert(std::is_trivially_copyable_v<Head>);

 public:
  // `receive(to, bytes)` returns Moved. `place(head)` is asked once per message for the memory of the body, whose size
  // it bounds; no value: the head makes no sense, and nothing more is read. kWhole: head() and the body stay as they
  // are until the next call, which reads the next message.
  template <class Receive, class Place>
  FrameState advance(Receive&& receive, Place&& place) {
    if (whole_) *this = Framed();
    for (;;) {
      const std::size_t wanted = has_head_ ? body_.size() : sizeof(Head);
      while (got_ < wanted) {
        std::byte* const into = has_head_ ? body_.data() : reinterpret_cast<std::byte*>(&head_);
        const Moved moved = receive(into + got_, wanted - got_);
        if (moved.over) return FrameState::kOver;
        if (moved.bytes == 0) return FrameState::kMore;
        got_ += moved.bytes;
      }
      if (has_head_) return whole_ = true, FrameState::kWhole;
      const std::optional<std::span<std::byte>> body = place(head_);
      if (!body) return FrameState::kOver;
      has_head_ = true;
      body_ = *body;
      got_ = 0;
    }
  }
  const Head& head() const { return head_; }
  // The body of the message whose head came last.
  std::span<std::byte> body() const { return body_; }
  // Has the head come, and not the whole body?
  bool in_body() const { return has_head_ && !whole_; }
  // The rest of the body goes there instead. Requires: in_body(), and as much memory.
  void divert(std::byte* to) { body_ = {to, body_.size()}; }

 private:
  Head head_;
  std::span<std::byte> body_;
  std::size_t got_ = 0;
  bool has_head_ = false, whole_ = false;
};

}  // namespace weft::net::link
