#include "net/messages/stream.h"

#include <algorithm>
#include <cstring>

namespace weft::net::messages {

void Stream::signal_came(std::uint64_t number, std::uint64_t tag) {
  constexpr std::uint64_t kMost = 1 << 20;  // no schedule sends as many ahead
  if (number <= signals_taken || number - signals_taken > kMost) return;
  signals_came = std::max(signals_came, number);
  if (signal_tags_.size() < number - signals_taken) signal_tags_.resize(number - signals_taken);
  signal_tags_[number - signals_taken - 1] = tag;
}

void Stream::note_sent(Bytes bytes) {
  if (sizes_.empty()) [[unlikely]]
    sizes_.resize(kMostUnderWay);
  sizes_[sent_++ % kMostUnderWay] = static_cast<std::uint32_t>(bytes);
  bytes_under_way_ += bytes;
}

void Stream::peer_took(std::uint32_t count) {
  const auto more = static_cast<std::int32_t>(count - static_cast<std::uint32_t>(taken_by_peer_));
  for (std::int32_t i = 0; i < more && taken_by_peer_ < sent_; ++i)
    bytes_under_way_ -= sizes_[taken_by_peer_++ % kMostUnderWay];
}

Incoming& Stream::message(std::uint64_t number) {
  if (number > taken_ + in_.size()) [[unlikely]] {
    std::vector<Incoming> more(kMostUnderWay);
    for (std::uint64_t n = taken_ + 1; n <= taken_ + in_.size(); ++n)
      more[(n - 1) % more.size()] = std::move(in_[(n - 1) % in_.size()]);
    in_ = std::move(more);
  }
  return in_[(number - 1) % in_.size()];
}

Stream::Found Stream::find(Range part, bool last, std::uint64_t tag) {
  const Incoming& next = head();
  if (!next.begun) return Found::kNot;
  if (next.tag != tag) return Found::kMismatch;
  // All parts behind this one may be empty: the message may end with it although it is not the last.
  if (next.total >= 0 && (last ? next.total != part.end : next.total < part.end)) return Found::kMismatch;
  if (next.striped ? next.received < next.total : next.received < part.end) return Found::kNot;
  return !last || next.total >= 0 ? Found::kHere : Found::kNot;
}

void Stream::want(Range part, std::uint64_t tag, std::byte* target) {
  target_ = target;
  wanted_ = part;
  wanted_tag_ = tag;
}

// Null unless the frame is of the part that is wanted somewhere.
std::byte* Stream::wanted_place(const Frame& f) const {
  if (target_ == nullptr || f.number != taken_ + 1 || f.tag != wanted_tag_ || f.offset < wanted_.begin ||
      f.offset + Bytes{f.length} > wanted_.end)
    return nullptr;
  return target_ + (f.offset - wanted_.begin);
}

// Parts of a message come in order, or are stripes: all of them, of one total, none over another. So a message whose
// bytes are as many as its total is whole.
bool Stream::belongs(const Incoming& in, const Frame& f) {
  constexpr std::size_t kMostStripes = 16;  // connections between two ranks
  const bool striped = (f.flags & kStriped) != 0;
  if (in.begun && (in.striped != striped || in.tag != f.tag)) return false;
  if (!striped) return f.offset == in.received && in.total < 0;
  if (in.begun && in.total != Bytes{f.total}) return false;
  if (f.length == 0 || in.stripes.size() >= kMostStripes) return false;
  const Range part{f.offset, f.offset + Bytes{f.length}};
  return std::none_of(in.stripes.begin(), in.stripes.end(),
                      [&](const Range& r) { return r.begin < part.end && part.begin < r.end; });
}

std::byte* Stream::place(const Frame& f, Blocks& blocks) {
  const bool striped = (f.flags & kStriped) != 0;
  if (f.number <= taken_ || f.number > taken_ + kMostUnderWay) return nullptr;
  Incoming& in = message(f.number);
  if (!belongs(in, f)) return nullptr;
  if (striped) in.stripes.push_back({f.offset, f.offset + Bytes{f.length}});
  in.begun = true;
  in.tag = f.tag;
  in.striped = striped;
  if ((f.flags & kEnd) != 0) in.total = f.total;
  if (std::byte* wanted = wanted_place(f)) return wanted;
  if (!in.block) in.block = blocks.take();
  return in.block.data() + f.offset;
}

bool Stream::arrived(const Frame& f, const std::byte* at) {
  Incoming& in = message(f.number);
  in.received += f.length;
  if (at == wanted_place(f)) in.direct.push_back({f.offset, f.offset + Bytes{f.length}});
  return f.number == taken_ + 1;
}

void Stream::forget(const Frame& f) {
  if (f.number <= taken_ || f.number > taken_ + kMostUnderWay) return;
  Incoming& in = message(f.number);
  std::erase_if(in.stripes, [&](const Range& r) { return r.begin == f.offset; });
  if (in.striped && !in.stripes.empty()) return;
  in.total = -1;
  in.begun = in.received > 0;
}

const std::byte* Stream::settle(Range part, std::byte* target) {
  Incoming& in = head();
  target_ = nullptr;
  if (in.direct.empty()) return in.block.data() + part.begin;
  // Whatever is not at the target yet is copied there from the block.
  std::sort(in.direct.begin(), in.direct.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  Bytes at = part.begin;
  const auto copy_until = [&](Bytes until) {
    if (until > at) std::memcpy(target + (at - part.begin), in.block.data() + at, static_cast<std::size_t>(until - at));
  };
  for (const Range& there : in.direct) {
    copy_until(there.begin);
    at = there.end;
  }
  copy_until(part.end);
  in.direct.clear();
  return target;
}

void Stream::release() {
  bytes_unreported_ += head().received;
  head() = Incoming{};
  ++taken_;
}

}  // namespace weft::net::messages
