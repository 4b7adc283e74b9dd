#include "net/tcp/endpoint.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "protocol/protocol.h"

namespace weft::net::tcp {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

static_assert(fabric::Endpoint<Endpoint>);

namespace {

const std::string kHasLeft = "it has left";  // the end of a peer that said goodbye
constexpr std::chrono::milliseconds kForGuests{200};
constexpr Bytes kStripeFrom = Bytes{64} << 10;  // smaller messages cross one connection

}  // namespace

fabric::Capabilities capabilities() {
  return {.name = "tcp",
          .max_strands = kStrands,
          .max_slice = kSlotBytes,
          .scratch_bytes = static_cast<Bytes>(kScratchBytes)};
}

Endpoint::Endpoint(bootstrap::Meeting meeting, Rank rank, const Options& options)
    : meeting_(std::move(meeting)),
      rank_(rank),
      ranks_(static_cast<Rank>(meeting_.ranks.size())),
      options_(options),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  const bool sums = meeting_.ranks.front().aggregation_port != 0;
  if (sums) node_ = ranks_;
  peers_.resize(meeting_.ranks.size() + (sums ? 1 : 0));
  peer_end_.resize(peers_.size());
  WEFT_ASSERT(protocol::traits(protocol::Protocol::kSimple).slots == kSlots);
  capabilities_ = tcp::capabilities();
  capabilities_.aggregation = node_ >= 0;
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, meeting_.listener.get(), &event);
}

// Says goodbye, so that peers know it from a death, and stays until their kernels have all that was said: closing a
// socket on which something has come unread would throw away what is still on its way out.
Endpoint::~Endpoint() {
  // Who is about to connect learns why the communicator is broken, not only that nobody is there any more.
  for (const auto until = Clock::now() + kForGuests; broken_ && Clock::now() < until;) {
    progress_openings();
    if (guests_.empty()) break;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  std::vector<Wire*> open;
  for (const Rank r : known_) {
    Peer& p = *peers_[static_cast<std::size_t>(r)];
    if (p.all_attached && !broken_ && end_of(r).empty()) control(r, FrameKind::kBye, 0, 0);
    for (auto& wire : p.wires)
      if (wire->attached() && !wire->ended()) open.push_back(wire.get());
  }
  for (Wire* wire : open) {
    wire->flush();
    shutdown(wire->fd(), SHUT_WR);
  }
  const auto longest = std::min<Clock::duration>(options_.timeout, std::chrono::seconds(broken_ ? 1 : 5));
  const auto deadline = Clock::now() + longest;
  for (;;) {
    std::erase_if(open, [](Wire* wire) { return wire->delivered(); });
    if (open.empty() || Clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Endpoint::begin(const fabric::Call& call) {
  call_ = call;
  if (call.everybody) ++calls_;
}

Endpoint::Peer& Endpoint::peer(Rank r) {
  auto& p = peers_[static_cast<std::size_t>(r)];
  if (!p) [[unlikely]] {
    p = std::make_unique<Peer>();
    for (int lane = 0; lane < options_.sockets; ++lane)
      p->wires.push_back(std::make_unique<Wire>(r, lane, options_.zero_copy));
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
  const Wire* wire = wire_in_the_way(operation);
  return wire == nullptr ? -1 : outward(wire->peer());
}

Wire* Endpoint::wire_in_the_way(const Operation& operation) {
  for (const End& end : operation.destinations) {
    if (end.kind != End::Kind::kLocal) continue;
    const std::byte* at = local(end.memory) + end.offset;
    for (Wire* wire : busy_)
      if (wire->touches(at, at + operation.bytes)) return wire;
  }
  return nullptr;
}

// Where a lone message may arrive at once: the first local destination of a move that only passes it on.
std::byte* Endpoint::direct_target(const Operation& operation) {
  if (operation.sources.size() != 1) return nullptr;
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kLocal) return local(end.memory) + end.offset;
  return nullptr;
}

void Endpoint::want(Stream& s, const End& end, std::byte* target, Bytes bytes) {
  s.target = target;
  s.wanted = {end.offset, end.offset + bytes};
  s.wanted_tag = tag_of(end);
}

bool Endpoint::available(Rank r, Stream& s, const End& end, Bytes bytes) {
  const Incoming& head = s.head();
  if (!head.begun) return false;
  if (head.tag != tag_of(end)) {
    mismatched_ = r;
    return false;
  }
  const Bytes needed = end.offset + bytes;
  if (head.striped ? head.received < head.total : head.received < needed) return false;
  if (head.total >= 0 && (end.last ? head.total != needed : head.total <= needed)) {
    mismatched_ = r;
    return false;
  }
  return !end.last || head.total >= 0;
}

bool Endpoint::ready(int strand, const Operation& asked) {
  using Kind = Operation::Kind;
  if (broken_) return false;
  const Operation& operation = through_node(asked);
  awaited_bytes_ = operation.bytes;
  if (operation.kind == Kind::kSignal) return true;
  if (operation.kind == Kind::kWait) {
    Stream& s = stream(operation.peer, strand);
    if (s.signals_came > s.signals_taken) return true;
    pump(operation.peer);
    return s.signals_came > s.signals_taken;
  }
  if (!busy_.empty()) {
    if (const Wire* wire = wire_in_the_way(operation)) {
      pump(wire->peer());
      if (wire_in_the_way(operation) != nullptr) return false;
    }
  }
  for (const End& end : operation.sources) {
    if (end.kind != End::Kind::kMessage) continue;
    Stream& s = stream(end.peer, end.strand);
    if (available(end.peer, s, end, operation.bytes)) continue;
    want(s, end, direct_target(operation), operation.bytes);
    pump(end.peer);
    if (!available(end.peer, s, end, operation.bytes)) return false;
  }
  for (const End& end : operation.destinations) {
    if (end.kind != End::Kind::kMessage || end.offset > 0) continue;  // later parts share the first one's slot
    Stream& s = stream(end.peer, end.strand);
    if (has_room(s)) continue;
    pump(end.peer);
    if (!has_room(s)) return false;
  }
  return true;
}

fabric::Posted Endpoint::post(int strand, const Operation& asked) {
  using Kind = Operation::Kind;
  announce_parts(asked);
  const Operation& operation = through_node(asked);
  if (operation.kind == Kind::kSignal) {
    control(operation.peer, FrameKind::kSignal, static_cast<std::uint16_t>(strand),
            ++stream(operation.peer, strand).signals_sent);
    return fabric::Posted::kDone;
  }
  if (operation.kind == Kind::kWait) {
    ++stream(operation.peer, strand).signals_taken;
    return fabric::Posted::kDone;
  }
  sources_.clear();
  destinations_.clear();
  scales_.clear();
  std::byte* const direct = direct_target(operation);
  Block received;  // keeps a message's block alive while it is passed on
  for (const End& end : operation.sources) {
    if (call_.scale) scales_.push_back(is_scaled(end) ? *call_.scale : fabric::Scalar{});
    if (end.kind == End::Kind::kMessage) {
      Stream& s = stream(end.peer, end.strand);
      sources_.push_back(settle(s, end, operation.bytes, direct));
      received = s.head().block;
    } else {
      WEFT_REQUIRE(end.kind == End::Kind::kLocal, "tcp does not load and store peers' memory");
      sources_.push_back(local(end.memory) + end.offset);
    }
  }
  const bool plain = operation.sources.size() == 1 && !is_scaled(operation.sources[0]);
  const std::byte* payload = plain ? sources_[0] : nullptr;
  Block block;
  if (plain && operation.sources[0].kind == End::Kind::kMessage && payload != direct) block = received;
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
    block = blocks_.take();
    destinations_.push_back(block.data());
    payload = block.data();
  }
  if (!destinations_.empty() && operation.bytes > 0)
    call_.fold(destinations_.data(), static_cast<int>(destinations_.size()), sources_.data(),
               static_cast<int>(sources_.size()), operation.bytes, call_.scale ? scales_.data() : nullptr);
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage) release(stream(end.peer, end.strand), end);
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kMessage) send_part(end, operation.bytes, payload, block);
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage) give_credit(end.peer, end.strand);  // unless it went with what was sent
  return fabric::Posted::kDone;
}

// Where a part that has come can be read in one piece: at its target, if some of it went there, else in its block.
const std::byte* Endpoint::settle(Stream& s, const End& end, Bytes bytes, std::byte* target) {
  Incoming& in = s.head();
  s.target = nullptr;
  if (in.direct.empty()) return in.block.data() + end.offset;
  // Whatever is not at the target yet is copied there from the block.
  std::sort(in.direct.begin(), in.direct.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  Bytes at = end.offset;
  const auto copy_until = [&](Bytes until) {
    if (until > at) std::memcpy(target + (at - end.offset), in.block.data() + at, static_cast<std::size_t>(until - at));
  };
  for (const Range& there : in.direct) {
    copy_until(there.begin);
    at = there.end;
  }
  copy_until(end.offset + bytes);
  in.direct.clear();
  return target;
}

void Endpoint::release(Stream& s, const End& end) {
  if (!end.last) return;
  s.head() = Incoming{};
  ++s.taken;
}

// At once when half of the slots are taken; otherwise with the next frame, or when there is nothing else to do.
void Endpoint::give_credit(Rank r, int strand) {
  Peer& p = peer(r);
  Stream& s = p.streams[static_cast<std::size_t>(strand)];
  if (r == rank_) {
    s.taken_by_peer = s.taken;
    return;
  }
  if (s.taken - s.told >= kSlots / 2) return control(r, FrameKind::kCredit, static_cast<std::uint16_t>(strand), 0);
  if (s.taken == s.told || p.owes_credit) return;
  p.owes_credit = true;
  owed_.push_back(r);
}

void Endpoint::send_part(const End& end, Bytes bytes, const std::byte* payload, const Block& block) {
  Peer& p = peer(end.peer);
  Stream& s = p.streams[static_cast<std::size_t>(end.strand)];
  if (!p.started && end.peer != rank_) open_connections(end.peer);
  Header header{.kind = FrameKind::kData,
                .flags = end.last ? kEnd : std::uint8_t{0},
                .strand = static_cast<std::uint16_t>(end.strand),
                .length = static_cast<std::uint32_t>(bytes),
                .number = s.sent + 1,
                .tag = tag_of(end),
                .offset = static_cast<std::uint32_t>(end.offset),
                .total = end.last ? static_cast<std::uint32_t>(end.offset + bytes) : 0,
                .taken = static_cast<std::uint32_t>(s.taken)};
  if (end.peer == rank_) return keep(header, payload);
  s.told = s.taken;
  if (end.last) ++s.sent;
  const auto lanes = static_cast<Bytes>(p.wires.size());
  if (lanes == 1 || bytes < kStripeFrom || !end.last || end.offset > 0) {
    p.wires[0]->send(header, payload, block, !end.last);
    note_busy(*p.wires[0]);
    return;
  }
  constexpr Bytes kPage = 4096;
  const Bytes share = ((bytes + lanes - 1) / lanes + kPage - 1) / kPage * kPage;
  header.flags = kEnd | kStriped;
  Bytes at = 0;
  for (Bytes lane = 0; lane < lanes && at < bytes; ++lane, at += share) {
    header.offset = static_cast<std::uint32_t>(at);
    header.length = static_cast<std::uint32_t>(std::min(share, bytes - at));
    Wire& wire = *p.wires[static_cast<std::size_t>(lane)];
    wire.send(header, payload + at, block);
    note_busy(wire);
  }
}

// A message to this rank itself.
void Endpoint::keep(const Header& h, const std::byte* payload) {
  Stream& s = stream(rank_, h.strand);
  Incoming& in = s.in[s.sent % kSlots];
  if (!in.block) in.block = blocks_.take();
  if (h.length > 0) std::memcpy(in.block.data() + h.offset, payload, h.length);
  in.begun = true;
  in.tag = h.tag;
  in.received += h.length;
  if ((h.flags & kEnd) == 0) return;
  in.total = h.total;
  ++s.sent;
}

void Endpoint::note_busy(Wire& wire) {
  if (!wire.idle() && std::find(busy_.begin(), busy_.end(), &wire) == busy_.end()) busy_.push_back(&wire);
}

Rank Endpoint::unsettled() {
  std::erase_if(busy_, [](Wire* wire) { return wire->flush() || wire->ended(); });
  if (busy_.empty()) return -1;
  const Rank r = busy_.front()->peer();
  pump(r);
  return outward(r);
}

Rank Endpoint::blocker(int strand, const Operation& asked) {
  if (asked.kind == Operation::Kind::kSignal || ready(strand, asked)) return -1;
  const Operation& operation = through_node(asked);
  if (operation.kind == Operation::Kind::kWait) return operation.peer;
  if (const Rank other = writer_in_the_way(operation); other >= 0) return other;
  for (const End& end : operation.sources)
    if (end.kind == End::Kind::kMessage && !available(end.peer, stream(end.peer, end.strand), end, operation.bytes))
      return end.peer == node_ ? blocker_behind_node(asked) : end.peer;
  for (const End& end : operation.destinations)
    if (end.kind == End::Kind::kMessage && end.offset == 0 && !has_room(stream(end.peer, end.strand)))
      return end.peer == node_ ? blocker_behind_node(asked) : end.peer;
  return -1;
}

std::byte* Endpoint::place(Wire& wire, const Header& h) {
  Stream& s = stream(wire.peer(), h.strand);
  const bool striped = (h.flags & kStriped) != 0;
  Incoming& in = s.in[(h.number - 1) % kSlots];
  if (h.number <= s.taken || h.number > s.taken + kSlots || (!striped && h.offset != in.received) ||
      (in.begun && (in.striped != striped || in.tag != h.tag || in.total >= 0) && !striped)) {
    damaged(wire, fmt::format("message {} of strand {}, bytes {} to {}: out of turn after message {}", h.number,
                              h.strand, h.offset, h.offset + h.length, s.taken));
    return nullptr;
  }
  in.begun = true;
  in.tag = h.tag;
  in.striped = striped;
  if ((h.flags & kEnd) != 0) in.total = h.total;
  if (h.number == s.taken + 1 && s.target != nullptr && h.tag == s.wanted_tag && h.offset >= s.wanted.begin &&
      h.offset + Bytes{h.length} <= s.wanted.end)
    return s.target + (h.offset - s.wanted.begin);
  if (!in.block) in.block = blocks_.take();
  return in.block.data() + h.offset;
}

bool Endpoint::arrived(Wire& wire, const Header& h) {
  if (h.kind != FrameKind::kData) {
    handle_control(wire, h);
    return h.kind == FrameKind::kSignal;
  }
  Stream& s = stream(wire.peer(), h.strand);
  s.taken_by_peer += static_cast<std::uint32_t>(h.taken - static_cast<std::uint32_t>(s.taken_by_peer));
  Incoming& in = s.in[(h.number - 1) % kSlots];
  in.received += h.length;
  const bool head = h.number == s.taken + 1;
  // Where it went: place() would now answer the same, unless it went into the block when nothing was wanted.
  if (head && s.target != nullptr && wire.last_target() == s.target + (h.offset - s.wanted.begin))
    in.direct.push_back({h.offset, h.offset + Bytes{h.length}});
  return head;
}

void Endpoint::handle_control(Wire& wire, const Header& h) {
  const Rank r = wire.peer();
  Peer& p = peer(r);
  Stream& s = p.streams[h.strand];
  s.taken_by_peer += static_cast<std::uint32_t>(h.taken - static_cast<std::uint32_t>(s.taken_by_peer));
  switch (h.kind) {
    case FrameKind::kSignal:
      s.signals_came = h.number;
      return;
    case FrameKind::kBye:
      return ended(r, kHasLeft);
    case FrameKind::kBroken: {
      const auto culprit = static_cast<Rank>(h.number) - 1;
      if (culprit < 0 || culprit >= ranks() || failure_) return;
      const bool known = h.offset <= static_cast<std::uint32_t>(fabric::Cause::kDiffers);
      const auto cause = known ? static_cast<fabric::Cause>(h.offset) : fabric::Cause::kFailed;
      fail(fabric::code(cause), Blame::kCommunicator,
           fmt::format("the communicator is broken: rank {} {}", culprit, fabric::word(cause)));
      return break_off(culprit, cause);
    }
    case FrameKind::kQuery:
      p.asks = true;
      if (differs(h)) mismatched_ = r;
      return answer(r);
    case FrameKind::kAnswer:
      p.answered = Clock::now();
      p.waits_for = static_cast<Rank>(h.offset) - 1;
      p.suspects = static_cast<Rank>(h.total) - 1;
      if (differs(h)) mismatched_ = r;
      return;
    case FrameKind::kPart:
      return note_part(wire, h);
    default:
      return;
  }
}

void Endpoint::damaged(Wire& wire, const std::string& what) {
  fail(Code::kAborted, Blame::kCommunicator,
       fmt::format("what came from rank {} ({}) is damaged: {}", wire.peer(), describe(wire.peer()), what));
}

void Endpoint::fail(Code code, Blame blame, const std::string& message) {
  if (!failure_) failure_ = Error{code, blame, message};
}

void Endpoint::ended(Rank r, const std::string& reason) {
  std::string& known = peer_end_[static_cast<std::size_t>(r)];
  if (known.empty()) known = reason;
  if (r != node_ || reason == kHasLeft) return;
  const Rank host = outward(r);
  fail(Code::kPeerDied, Blame::kCommunicator,
       fmt::format("rank {} ({}), which sums messages, has ended: {}", host, describe(host), reason));
  break_off(host);
}

bootstrap::Record Endpoint::record_of(Rank r) const {
  if (r != node_) return meeting_.ranks[static_cast<std::size_t>(r)];
  bootstrap::Record node = meeting_.ranks.front();
  node.data.port = node.aggregation_port;
  return node;
}

std::string Endpoint::describe(Rank r) const { return record_of(r).text(); }

void Endpoint::control(Rank r, FrameKind kind, std::uint16_t strand, std::uint64_t number, std::uint32_t offset,
                       std::uint32_t total, bool more_follows) {
  Peer& p = peer(r);
  Stream& s = p.streams[strand];
  if (r == rank_) {
    s.signals_came = number;  // a signal to itself: nothing else is ever due
    return;
  }
  if (!p.started) open_connections(r);
  s.told = s.taken;
  p.wires[0]->send({.kind = kind,
                    .strand = strand,
                    .number = number,
                    .tag = call_.signature,
                    .offset = offset,
                    .total = total,
                    .taken = static_cast<std::uint32_t>(s.taken)},
                   nullptr, Block(), more_follows);
  note_busy(*p.wires[0]);
}

void Endpoint::give_back() {
  for (const Rank r : owed_) {
    Peer& p = peer(r);
    p.owes_credit = false;
    for (std::uint16_t strand = 0; strand < kStrands; ++strand)
      if (const Stream& s = p.streams[strand]; s.told != s.taken) control(r, FrameKind::kCredit, strand, 0);
  }
  owed_.clear();
}

bool Endpoint::drain(Wire& wire) {
  const bool moved = wire.receive(*this);
  if (wire.ended()) {
    ended(wire.peer(), wire.end_reason());
    if (wire.attached()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, wire.fd(), nullptr);
  }
  return moved;
}

bool Endpoint::pump(Rank r) {
  Peer& p = peer(r);
  if (broken_ || r == rank_) return false;
  if (!p.all_attached) [[unlikely]] {
    if (!p.started) open_connections(r);
    return progress_openings();
  }
  bool moved = false;
  for (auto& wire : p.wires) {
    if (!wire->idle()) wire->flush();
    moved |= drain(*wire);
  }
  return moved;
}

bool Endpoint::pump_all() {
  if (broken_) return false;
  bool moved = progress_openings();
  for (Wire* wire : busy_) wire->flush();
  std::erase_if(busy_, [](Wire* wire) { return wire->idle() || wire->ended(); });
  for (std::size_t i = 0; i < known_.size(); ++i)
    for (auto& wire : peers_[static_cast<std::size_t>(known_[i])]->wires)
      if (wire->attached() && !wire->ended()) moved |= drain(*wire);
  return moved;
}

void Endpoint::sleep(std::chrono::milliseconds limit) {
  for (const Rank r : known_)
    for (auto& wire : peers_[static_cast<std::size_t>(r)]->wires) {
      if (!wire->attached() || wire->ended()) continue;
      if (wire->holds_bytes()) return;
      if (wire->idle() == !wire->watched_for_output) continue;
      wire->watched_for_output = !wire->idle();
      epoll_event event{.events = EPOLLIN | (wire->idle() ? 0u : unsigned{EPOLLOUT}), .data = {.ptr = wire.get()}};
      epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, wire->fd(), &event);
    }
  epoll_event events[64];
  const int n = epoll_wait(epoll_.get(), events, 64, static_cast<int>(limit.count()));
  bool others = false;
  for (int i = 0; i < n; ++i) {
    auto* wire = static_cast<Wire*>(events[i].data.ptr);
    if (wire == nullptr) {
      others = true;
      continue;
    }
    wire->flush();
    drain(*wire);
  }
  if (others || !openings_.empty() || !guests_.empty()) progress_openings();
}

// Calls that only some ranks make have no number, and are never compared.
std::uint64_t Endpoint::call_number() const { return call_.everybody ? calls_ : 0; }

bool Endpoint::differs(const Header& h) const {
  return h.number != 0 && h.number == call_number() && h.tag != call_.signature;
}

void Endpoint::answer(Rank r) {
  control(r, FrameKind::kAnswer, 0, call_number(), static_cast<std::uint32_t>(awaited_ + 1),
          static_cast<std::uint32_t>(suspicion_ + 1));
}

void Endpoint::compare_calls(Rank r) {
  Peer& p = peer(r);
  const auto now = Clock::now();
  const auto pace =
      std::clamp<Clock::duration>(options_.timeout / 20, std::chrono::milliseconds(20), std::chrono::milliseconds(500));
  if (now - p.asked < pace || !p.all_attached || !end_of(r).empty()) return;
  p.asked = now;
  control(r, FrameKind::kQuery, 0, call_number());
}

Rank Endpoint::culprit_behind(Rank awaited, std::chrono::milliseconds lately) const {
  const auto& p = peers_[static_cast<std::size_t>(awaited)];
  if (!p || Clock::now() - p->answered > lately || p->waits_for < 0 || p->waits_for >= ranks()) return awaited;
  const Rank culprit = p->suspects >= 0 && p->suspects < ranks() ? p->suspects : p->waits_for;
  return culprit == rank_ ? awaited : culprit;  // a cycle: everyone waits
}

void Endpoint::say_awaited(Rank awaited, std::chrono::milliseconds lately) {
  const Rank suspicion = awaited < 0 ? -1 : culprit_behind(awaited, lately);
  if (awaited == awaited_ && suspicion == suspicion_) return;
  awaited_ = awaited;
  suspicion_ = suspicion;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    Peer& p = *peers_[static_cast<std::size_t>(known_[i])];
    if (!p.asks || !p.all_attached || !end_of(known_[i]).empty()) continue;
    if (awaited < 0)
      p.asks = false;
    else
      answer(known_[i]);
  }
}

Rank Endpoint::died() const {
  for (Rank r = 0; r < ranks(); ++r)
    if (!end_of(r).empty() && end_of(r) != kHasLeft) return r;
  return -1;
}

void Endpoint::break_off(Rank culprit, fabric::Cause cause) {
  if (broken_) return;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const Rank r = known_[i];
    if (end_of(r).empty() && peer(r).all_attached) tell_broken(r, {culprit, cause});
  }
  broken_ = true;
  by_ = {culprit, cause};
}

void Endpoint::tell_broken(Rank r, const Broken& by) {
  control(r, FrameKind::kBroken, 0, static_cast<std::uint64_t>(by.culprit) + 1, static_cast<std::uint32_t>(by.cause));
}

}  // namespace weft::net::tcp
