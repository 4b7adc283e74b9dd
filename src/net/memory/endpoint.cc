#include "net/memory/endpoint.h"

#include <algorithm>

namespace weft::net::memory {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

Endpoint::Endpoint(Segment segment, Rank rank, bool addressable, std::string_view name)
    : segment_(segment),
      rank_(rank),
      addressable_(addressable),
      links_(static_cast<std::size_t>(segment.ranks() * kStrands)) {
  capabilities_ = {.name = name, .load_store = true, .max_strands = kStrands, .max_slice = kSlotBytes};
  for (Rank peer = 0; peer < segment.ranks(); ++peer) {
    for (int strand = 0; strand < kStrands; ++strand) {
      Link& l = link(peer, strand);
      l.out = &segment.connection(rank, peer, strand);
      l.in = &segment.connection(peer, rank, strand);
    }
  }
}

void Endpoint::begin(const fabric::Call& call) {
  call_ = call;
  tag_ = tag_of(call.signature);
  ++calls_;
  Board& board = segment_.block(rank_).boards[calls_ % kBoards];
  board.call.store(0, std::memory_order_relaxed);
  board.signature.store(call.signature, std::memory_order_release);
  if (call.publishes) {
    board.in.store(call.in - segment_.base(), std::memory_order_relaxed);
    board.out.store(call.out - segment_.base(), std::memory_order_relaxed);
    if (call.scale) {
      board.scale_real.store(call.scale->real, std::memory_order_relaxed);
      board.scale_integer.store(call.scale->integer, std::memory_order_relaxed);
    }
  }
  board.call.store(calls_, std::memory_order_release);
}

const std::byte* Endpoint::take(Link& l, Bytes bytes) {
  const std::size_t index = l.received % kSlots;
  if (!line_protocol()) return l.in->slots[index];
  const FlaggedLine* lines = l.in->lines[index];
  const auto size = static_cast<std::size_t>(bytes);
  if (size <= FlaggedLine::kData) return lines[0].data;
  l.staging.resize(kLinesPerSlot * FlaggedLine::kData);
  for (std::size_t at = 0, i = 0; at < size; at += FlaggedLine::kData, ++i)
    std::memcpy(l.staging.data() + at, lines[i].data, std::min(FlaggedLine::kData, size - at));
  return l.staging.data();
}

void Endpoint::release(Link& l, Rank peer) {
  l.in->head.value.store(++l.received, std::memory_order_release);
  Doorbell::notify(segment_.block(peer));
}

std::byte* Endpoint::slot(Link& l, Bytes bytes) {
  const std::size_t index = l.sent % kSlots;
  if (!line_protocol()) return l.out->slots[index];
  if (static_cast<std::size_t>(bytes) <= FlaggedLine::kData) return l.out->lines[index][0].data;
  l.staging.resize(kLinesPerSlot * FlaggedLine::kData);
  return l.staging.data();
}

// `packed_from`: where the message's bytes are, for LL64 messages longer than a line.
void Endpoint::publish(Link& l, Rank peer, Bytes bytes, const std::byte* packed_from) {
  const std::size_t index = l.sent % kSlots;
  const std::uint64_t number = ++l.sent;
  const std::uint64_t flag = number | std::uint64_t{tag_} << kTagShift;
  if (!line_protocol()) {
    l.out->tail.tags[index] = tag_;
    l.out->tail.value.store(number, std::memory_order_release);
  } else {
    FlaggedLine* lines = l.out->lines[index];
    const auto size = static_cast<std::size_t>(bytes);
    if (size <= FlaggedLine::kData) {
      lines[0].flag.store(flag, std::memory_order_release);
    } else {
      for (std::size_t at = 0, i = 0; at < size; at += FlaggedLine::kData, ++i) {
        std::memcpy(lines[i].data, packed_from + at, std::min(FlaggedLine::kData, size - at));
        lines[i].flag.store(flag, std::memory_order_release);
      }
    }
  }
  Doorbell::notify(segment_.block(peer));
}

std::byte* Endpoint::local(Memory memory) const {
  switch (memory) {
    case Memory::kIn:
      return const_cast<std::byte*>(call_.in);  // only ever a source
    case Memory::kOut:
      return call_.out;
    case Memory::kScratch:
      return segment_.scratch(rank_);
  }
  return nullptr;
}

bool Endpoint::agrees(Rank peer) {
  const Board& board = segment_.block(peer).boards[calls_ % kBoards];
  if (board.call.load(std::memory_order_acquire) == calls_ &&
      board.signature.load(std::memory_order_relaxed) == call_.signature)
    return true;
  mismatched_ = peer;
  return false;
}

void Endpoint::compare_calls(Rank peer) {
  const Board& board = segment_.block(peer).boards[calls_ % kBoards];
  if (board.call.load(std::memory_order_acquire) != calls_) return;  // not there yet, or long past
  const std::uint64_t signature = board.signature.load(std::memory_order_acquire);
  if (board.call.load(std::memory_order_relaxed) == calls_ && signature != call_.signature) mismatched_ = peer;
}

std::byte* Endpoint::remote(Rank peer, Memory memory) {
  if (memory == Memory::kScratch) return segment_.scratch(peer);
  const Board& board = segment_.block(peer).boards[calls_ % kBoards];
  return segment_.base() + (memory == Memory::kIn ? board.in : board.out).load(std::memory_order_relaxed);
}

// All ranks scale or none does: the signature says so.
Scalar Endpoint::scale_of(const End& end) const {
  if (!fabric::scales(end)) return {};
  if (end.kind == End::Kind::kLocal) return *call_.scale;
  const Board& board = segment_.block(end.peer).boards[calls_ % kBoards];
  return {board.scale_real.load(std::memory_order_relaxed), board.scale_integer.load(std::memory_order_relaxed)};
}

void Endpoint::move(const Operation& operation) {
  sources_.clear();
  destinations_.clear();
  for (const End& end : operation.sources) {
    switch (end.kind) {
      case End::Kind::kLocal:
        sources_.push_back(local(end.memory) + end.offset);
        break;
      case End::Kind::kRemote:
        sources_.push_back(remote(end.peer, end.memory) + end.offset);
        break;
      case End::Kind::kMessage:
        sources_.push_back(take(link(end.peer, end.strand), operation.bytes));
        break;
    }
  }
  bool scaled = false;
  if (call_.scale) [[unlikely]] {
    scales_.clear();
    for (const End& end : operation.sources) {
      scales_.push_back(scale_of(end));
      scaled |= fabric::scales(end);
    }
  }
  const std::byte* value = nullptr;  // where the whole value is, if anywhere
  if (sources_.size() == 1 && !scaled) value = sources_[0];
  const bool packs = line_protocol() && static_cast<std::size_t>(operation.bytes) > FlaggedLine::kData;
  for (const End& end : operation.destinations) {
    switch (end.kind) {
      case End::Kind::kLocal:
        destinations_.push_back(local(end.memory) + end.offset);
        break;
      case End::Kind::kRemote:
        destinations_.push_back(remote(end.peer, end.memory) + end.offset);
        break;
      case End::Kind::kMessage:
        if (packs && value != nullptr) continue;  // packed straight from the source
        destinations_.push_back(slot(link(end.peer, end.strand), operation.bytes));
        if (packs) value = destinations_.back();  // later messages are packed from the first one's staging
        break;
    }
  }
  if (!destinations_.empty())
    call_.fold(destinations_.data(), static_cast<int>(destinations_.size()), sources_.data(),
               static_cast<int>(sources_.size()), operation.bytes, scaled ? scales_.data() : nullptr);
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kMessage) publish(link(end.peer, end.strand), end.peer, operation.bytes, value);
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage) release(link(end.peer, end.strand), end.peer);
}

Rank Endpoint::blocker(int strand, const Operation& operation) {
  if (operation.kind == Operation::Kind::kWait) return operation.peer;
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage && !arrived(link(end.peer, end.strand), end.peer, operation.bytes))
      return end.peer;
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kMessage && !has_room(link(end.peer, end.strand))) return end.peer;
  (void)strand;
  return -1;
}

}  // namespace weft::net::memory
