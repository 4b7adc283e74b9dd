#include "net/messages/endpoint.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "plan/protocol/protocol.h"

namespace weft::net::messages {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

static_assert(fabric::Endpoint<Endpoint>);

namespace {

constexpr std::chrono::milliseconds kForGuests{200};

// Of the message whose first part the operation sends; the most if there are more to come.
Bytes size_of(const Operation& operation, const End& end) { return end.last ? operation.bytes : kSlotBytes; }

}  // namespace

Endpoint::Endpoint(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank,
                   std::chrono::milliseconds timeout, const MakeCarrier& make_carrier)
    : capabilities_(capabilities),
      meeting_(std::move(meeting)),
      rank_(rank),
      ranks_(static_cast<Rank>(meeting_.ranks.size())),
      node_(capabilities.aggregation ? ranks_ : -1),
      timeout_(timeout),
      peers_(meeting_.ranks.size() + (node_ >= 0 ? 1 : 0)),
      failures_(*this, meeting_, rank_, outward(rank_), peers_.size()) {
  WEFT_ASSERT(protocol::traits(protocol::Protocol::kSimple).slots == kSlots);
  places_.ranks.resize(std::max(peers_.size(), static_cast<std::size_t>(rank_) + 1));
  std::iota(places_.ranks.begin(), places_.ranks.end(), 0);
  places_.numbers.resize(places_.ranks.size(), kRoot);
  hub_ = std::make_shared<Hub>(meeting_, std::move(meeting_.listener), rank_, static_cast<Rank>(places_.ranks.size()),
                               make_carrier);
  hub_->join(own_, places_, *this);
  if (rank_ < ranks_ && !meeting_.member) meeting_.member = bootstrap::join_members(meeting_, rank_);
}

Endpoint::Endpoint(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank,
                   std::chrono::milliseconds timeout, Branch branch)
    : capabilities_(capabilities),
      meeting_(std::move(meeting)),
      rank_(rank),
      ranks_(static_cast<Rank>(meeting_.ranks.size())),
      node_(-1),
      timeout_(timeout),
      offer_(std::move(branch.offer)),
      places_(std::move(branch.places)),
      own_(offer_.number()),
      hub_(offer_.hub()),
      peers_(meeting_.ranks.size()),
      failures_(*this, meeting_, rank_, rank_, peers_.size()) {
  if (!meeting_.member) meeting_.member = bootstrap::join_members(meeting_, rank_);
  hub_->join(own_, places_, *this);
}

// Says goodbye, so that peers know it from a death.
Endpoint::~Endpoint() {
  // Who is about to connect learns why the communicator is broken, not only that nobody is there any more.
  for (const auto until = Clock::now() + kForGuests; failures_.is_broken() && Clock::now() < until;) {
    {
      const auto guard = hub_->guard();
      hub_->progress_openings();
      if (!hub_->has_guests()) break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  {
    const auto guard = hub_->guard();
    forget_targets();
    for (const Rank r : known_)
      if (!failures_.is_broken() && failures_.listens(r)) control(r, FrameKind::kBye, 0, peer(r).sent);
  }
  const auto longest = std::min<Clock::duration>(timeout_, std::chrono::seconds(failures_.is_broken() ? 1 : 5));
  // Their blocks may be written to for longer; until it is closed, frames come in.
  const auto kept = std::make_shared<std::vector<std::unique_ptr<Peer>>>();
  hub_->close(own_, longest, kept);
  if (kept.use_count() > 1) *kept = std::move(peers_);
}

void Endpoint::begin(const fabric::Call& call) {
  const auto guard = hub_->guard();
  call_ = call;
  if (!call.everybody) return;
  ++calls_;
  made_[calls_ % kMade] = {call.signature, call.description};
  if (meeting_.member) meeting_.member->note_call(calls_, chain_of(call.signature));
}

Endpoint::Peer& Endpoint::peer(Rank r) {
  auto& p = peers_[static_cast<std::size_t>(r)];
  if (!p) [[unlikely]] {
    p = std::make_unique<Peer>();
    if (hub_->carrier().outlives_lanes())
      for (Stream& s : p->streams) s.rails = meeting_.most_rails();
    known_.push_back(r);
  }
  return *p;
}

std::byte* Endpoint::local(Memory memory) {
  switch (memory) {
    case Memory::kIn:
      return const_cast<std::byte*>(call_.in);  // only ever a source
    case Memory::kOut:
      return call_.out;
    case Memory::kScratch:
      if (scratch_ == nullptr) {
        own_scratch_ = std::make_unique<std::byte[]>(kScratchBytes);
        scratch_ = own_scratch_.get();
      }
      return scratch_;
  }
  return nullptr;
}

Rank Endpoint::writer_in_the_way(const Operation& operation) {
  const auto guard = hub_->guard();
  return outward(reader_in_the_way(operation));
}

// Memory that another communicator sends from is its callers' business, who share it.
Rank Endpoint::reader_of(const std::byte* begin, const std::byte* end) const {
  const Rank reader = hub_->carrier().reader_of(own_, begin, end);
  if (reader < 0) return -1;
  return static_cast<Rank>(std::find(places_.ranks.begin(), places_.ranks.end(), reader) - places_.ranks.begin());
}

Rank Endpoint::reader_in_the_way(const Operation& operation) {
  for (const End& end : operation.destinations) {
    if (end.kind != End::Kind::kLocal) continue;
    const std::byte* at = local(end.memory) + end.offset;
    if (const Rank reader = reader_of(at, at + operation.bytes); reader >= 0) return reader;
  }
  return -1;
}

bool Endpoint::reads(const std::byte* from, Bytes bytes) {
  const auto guard = hub_->guard();
  if (reader_of(from, from + bytes) < 0) return false;
  pump(reader_of(from, from + bytes));
  return reader_of(from, from + bytes) >= 0;
}

// Where a lone message may arrive at once: the first local destination of a move that only passes it on.
std::byte* Endpoint::direct_target(const Operation& operation) {
  if (operation.sources.size() != 1) return nullptr;
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kLocal) return local(end.memory) + end.offset;
  return nullptr;
}

bool Endpoint::available(Rank r, Stream& s, const End& end, Bytes bytes) {
  const Stream::Found found = s.find({end.offset, end.offset + bytes}, end.last, tag_of(end));
  if (found == Stream::Found::kMismatch) mismatched_ = r;
  return found == Stream::Found::kHere;
}

bool Endpoint::signalled(Rank r, Stream& s) {
  if (s.signals_came <= s.signals_taken) return false;
  if (s.signal_agrees(call_.signature)) return true;
  mismatched_ = r;
  return false;
}

bool Endpoint::ready(int strand, const Operation& asked) {
  using Kind = Operation::Kind;
  const auto guard = hub_->guard();
  if (failures_.is_broken()) return false;
  const Operation& operation = through_node(asked);
  awaited_bytes_ = operation.bytes;
  if (operation.kind == Kind::kSignal) return true;
  if (operation.kind == Kind::kWait) {
    Stream& s = stream(operation.peer, strand);
    if (signalled(operation.peer, s)) return true;
    pump(operation.peer);
    return signalled(operation.peer, s);
  }
  if (const Rank other = reader_in_the_way(operation); other >= 0) {
    pump(other);
    if (reader_in_the_way(operation) >= 0) return false;
  }
  for (const End& end : operation.sources) {
    if (end.kind != End::Kind::kMessage) continue;
    Stream& s = stream(end.peer, end.strand);
    if (available(end.peer, s, end, operation.bytes)) continue;
    s.want({end.offset, end.offset + operation.bytes}, tag_of(end), direct_target(operation));
    pump(end.peer);
    if (!available(end.peer, s, end, operation.bytes)) return false;
  }
  for (const End& end : operation.destinations) {
    if (end.kind != End::Kind::kMessage || end.offset > 0) continue;  // later parts share the first one's slot
    Stream& s = stream(end.peer, end.strand);
    if (s.has_room(size_of(operation, end))) continue;
    pump(end.peer);
    if (!s.has_room(size_of(operation, end))) return false;
  }
  return true;
}

void Endpoint::gather_sources(const Operation& operation, std::byte* direct) {
  sources_.clear();
  scales_.clear();
  for (const End& end : operation.sources) {
    if (call_.scale) scales_.push_back(is_scaled(end) ? *call_.scale : fabric::Scalar{});
    if (end.kind == End::Kind::kMessage) {
      sources_.push_back(stream(end.peer, end.strand).settle({end.offset, end.offset + operation.bytes}, direct));
    } else {
      WEFT_REQUIRE(end.kind == End::Kind::kLocal, "{} does not load and store peers' memory", capabilities_.name);
      sources_.push_back(local(end.memory) + end.offset);
    }
  }
}

fabric::Posted Endpoint::post(int strand, const Operation& asked) {
  using Kind = Operation::Kind;
  const auto guard = hub_->guard();
  announce_parts(asked);
  const Operation& operation = through_node(asked);
  if (operation.kind == Kind::kSignal) {
    control(operation.peer, FrameKind::kSignal, static_cast<std::uint16_t>(strand),
            ++stream(operation.peer, strand).signals_sent);
    return fabric::Posted::kDone;
  }
  if (operation.kind == Kind::kWait) {
    stream(operation.peer, strand).take_signal();
    return fabric::Posted::kDone;
  }
  std::byte* const direct = direct_target(operation);
  gather_sources(operation, direct);
  const End& first = operation.sources[0];
  const bool plain = operation.sources.size() == 1 && !is_scaled(first);
  const std::byte* payload = plain ? sources_[0] : nullptr;
  Block block;  // keeps alive what is sent, if that is no caller's memory
  if (plain && first.kind == End::Kind::kMessage && payload != direct)
    block = stream(first.peer, first.strand).head().block;
  destinations_.clear();
  for (const End& end : operation.destinations) {
    if (end.kind != End::Kind::kLocal) continue;
    std::byte* at = local(end.memory) + end.offset;
    if (plain && at == sources_[0]) continue;  // it is there already
    destinations_.push_back(at);
    if (payload == nullptr) payload = at;
  }
  const bool sends = std::any_of(operation.destinations.begin(), operation.destinations.end(),
                                 [](const End& end) { return end.kind == End::Kind::kMessage; });
  if (payload == nullptr && sends) {
    block = hub_->blocks().take();
    destinations_.push_back(block.data());
    payload = block.data();
  }
  if (!destinations_.empty() && operation.bytes > 0)
    call_.fold(destinations_.data(), static_cast<int>(destinations_.size()), sources_.data(),
               static_cast<int>(sources_.size()), operation.bytes, call_.scale ? scales_.data() : nullptr);
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage && end.last) stream(end.peer, end.strand).release();
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kMessage) send_part(end, operation.bytes, payload, block);
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage) give_credit(end.peer, end.strand);  // unless it went with what was sent
  return fabric::Posted::kDone;
}

// At once when about half of what may be under way has been taken; otherwise with the next frame, or before this rank
// sleeps: who only receives would say it after every message.
void Endpoint::give_credit(Rank r, int strand) {
  Peer& p = peer(r);
  Stream& s = p.streams[static_cast<std::size_t>(strand)];
  if (r == rank_) return s.peer_took(static_cast<std::uint32_t>(s.taken()));
  if (s.must_tell()) return control(r, FrameKind::kCredit, static_cast<std::uint16_t>(strand), 0);
  if (s.all_reported() || p.owes_credit) return;
  p.owes_credit = true;
  owed_.push_back(r);
}

void Endpoint::send_part(const End& end, Bytes bytes, const std::byte* payload, const Block& block) {
  Stream& s = stream(end.peer, end.strand);
  const Frame frame{.kind = FrameKind::kData,
                    .flags = end.last ? kEnd : std::uint8_t{0},
                    .strand = static_cast<std::uint16_t>(end.strand),
                    .length = static_cast<std::uint32_t>(bytes),
                    .number = s.sent() + 1,
                    .tag = tag_of(end),
                    .offset = static_cast<std::uint32_t>(end.offset),
                    .total = end.last ? static_cast<std::uint32_t>(end.offset + bytes) : 0,
                    .taken = static_cast<std::uint32_t>(s.taken())};
  if (end.last) s.note_sent(end.offset + bytes);
  if (end.peer == rank_) return keep(frame, payload);
  send(end.peer, frame, payload, block, !end.last);
}

// A message to this rank itself.
void Endpoint::keep(const Frame& frame, const std::byte* payload) {
  Stream& s = stream(rank_, frame.strand);
  std::byte* const at = s.place(frame, hub_->blocks());
  if (frame.length > 0) std::memcpy(at, payload, frame.length);
  s.arrived(frame, at);
}

void Endpoint::send(Rank r, const Frame& frame, const std::byte* payload, const Block& block, bool more_follows) {
  Peer& p = peer(r);
  hub_->open(own_, r);
  p.streams[frame.strand].note_reported();
  p.sent += frame.weight();
  hub_->send(own_, r, frame, payload, block, more_follows);
}

Rank Endpoint::unsettled() {
  const auto guard = hub_->guard();
  const auto here = [this] {
    const Rank r = hub_->carrier().unsettled(own_);
    if (r < 0) return r;
    return static_cast<Rank>(std::find(places_.ranks.begin(), places_.ranks.end(), r) - places_.ranks.begin());
  };
  Rank r = here();
  if (r >= 0 && pump(r)) r = here();
  return outward(r);
}

Rank Endpoint::blocker(int strand, const Operation& asked) {
  const auto guard = hub_->guard();
  if (asked.kind == Operation::Kind::kSignal || ready(strand, asked)) return -1;
  const Operation& operation = through_node(asked);
  if (operation.kind == Operation::Kind::kWait) return operation.peer;
  if (const Rank other = writer_in_the_way(operation); other >= 0) return other;
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage && !available(end.peer, stream(end.peer, end.strand), end, operation.bytes))
      return end.peer == node_ ? blocker_behind_node(asked) : end.peer;
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kMessage && end.offset == 0 &&
        !stream(end.peer, end.strand).has_room(size_of(operation, end)))
      return end.peer == node_ ? blocker_behind_node(asked) : end.peer;
  return -1;
}

bool Endpoint::pump(Rank r) {
  if (failures_.is_broken() || r == rank_) return false;
  (void)peer(r);
  hub_->open(own_, r);
  const bool moved = hub_->pump(own_, r);
  stirred_ |= moved;
  return moved;
}

bool Endpoint::pump_all() {
  const auto guard = hub_->guard();
  return !failures_.is_broken() && hub_->pump_all(own_);
}

void Endpoint::sleep(std::chrono::milliseconds limit) {
  {
    const auto guard = hub_->guard();
    if (std::exchange(stirred_, false) || !hub_->prepare_sleep(own_)) return;
  }
  hub_->sleep(own_, limit);
}

}  // namespace weft::net::messages
