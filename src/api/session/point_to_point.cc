#include "api/session/point_to_point.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "api/session/request.h"
#include "plan/schedule/element.h"

namespace weft::session {
namespace {

constexpr int kAtOnce = 16;  // messages read from one peer before the next has its turn: a choice
constexpr std::uint64_t kEnvelopeCost = 64;

std::string name_of(DataType type) { return std::string(schedule::name(type)); }

// Of a message that the receive cannot take: `calls` are the sender's or the receiver's, in the order of `ranks`.
Error misfit(std::array<Rank, 2> ranks, std::array<std::string, 2> calls, bool same_type) {
  Error error{Code::kMismatch, Blame::kOperation, ""};
  error.ranks = {ranks[0], ranks[1]};
  error.message = fmt::format("rank {} called {}, rank {} called {}: {}", ranks[0], calls[0], ranks[1], calls[1],
                              same_type ? "the buffer is too small" : "type differs");
  error.calls = {std::move(calls[0]), std::move(calls[1])};
  error.field = same_type ? "count" : "type";
  return error;
}

bool is_type(DataType type) { return static_cast<int>(type) < kDataTypes; }

}  // namespace

Bytes TaggedOperation::bytes() const { return static_cast<Bytes>(count) * size_of(type); }

std::string TaggedOperation::text() const {
  const std::string with = tag == kAnyTag ? "any tag" : fmt::format("tag {}", tag);
  if (sends) return fmt::format("send of {} {} to rank {} with {}", count, name_of(type), peer, with);
  const std::string from = peer == kAnySource ? "any rank" : fmt::format("rank {}", peer);
  return fmt::format("receive of up to {} {} from {} with {}", count, name_of(type), from, with);
}

PointToPoint::PointToPoint(fabric::Lane& lane, Rank rank, Rank ranks)
    : lane_(lane), rank_(rank), ranks_(ranks), peers_(static_cast<std::size_t>(ranks)), served_(rank) {}

PointToPoint::Peer& PointToPoint::peer(Rank r) {
  auto& p = peers_[static_cast<std::size_t>(r)];
  if (!p) {
    p = std::make_unique<Peer>();
    known_.push_back(r);
  }
  return *p;
}

Bytes PointToPoint::bytes_of(const Envelope& e) { return static_cast<Bytes>(e.count) * size_of(e.type); }

std::uint64_t PointToPoint::cost(const Envelope& e) {
  const auto bytes = static_cast<std::uint64_t>(bytes_of(e));
  return kEnvelopeCost + (bytes > Envelope::kSmall ? bytes : 0);
}

std::unique_ptr<PointToPoint::Outgoing> PointToPoint::outgoing(Rank to, Kind kind, std::uint64_t sequence) {
  std::unique_ptr<Outgoing> o;
  if (spare_.empty()) {
    o = std::make_unique<Outgoing>();
  } else {
    o = std::move(spare_.back());
    spare_.pop_back();
    *o = {};
  }
  o->to = to;
  o->envelope.kind = kind;
  o->envelope.sequence = sequence;
  return o;
}

void PointToPoint::say(Rank to, Kind kind, std::uint64_t sequence, std::size_t count, DataType type) {
  Peer& p = peer(to);
  auto o = outgoing(to, kind, sequence);
  o->envelope.count = count;
  o->envelope.type = type;
  p.out.push_back(std::move(o));
  flush(to, p);
}

void PointToPoint::begin(const Operation& operation) {
  ++unfinished_;
  operation->sends ? begin_send(operation) : begin_receive(operation);
}

void PointToPoint::finish(const Operation& o, Status status) {
  if (o->done) return;
  o->done = true;
  o->status = std::move(status);
  --unfinished_;
  if (!o->sends && o->peer != kAnySource) --peer(o->peer).awaited;
}

void PointToPoint::begin_send(const Operation& send) {
  if (send->peer == rank_) return send_to_self(send);
  Peer& p = peer(send->peer);
  p.waiting.push_back(send);
  post_waiting(send->peer, p);
  flush(send->peer, p);
}

void PointToPoint::send_to_self(const Operation& send) {
  Peer& p = peer(rank_);
  Envelope e{.kind = Kind::kAsk, .type = send->type, .tag = send->tag, .count = send->count, .sequence = ++p.sequence};
  send->sequence = e.sequence;
  p.asked.emplace(e.sequence, send);
  if (const Operation receive = match(rank_, e)) return give_to(rank_, {e, {}}, receive);
  if (send->bytes() <= kEagerBytes && p.eager - p.freed + cost(e) <= kBudget) {
    e.kind = Kind::kEager;
    p.asked.erase(e.sequence);
    p.eager += cost(e);
    p.unexpected.push_back({e, {send->data, send->data + send->bytes()}});
    return finish(send);
  }
  p.unexpected.push_back({e, {}});
}

// Gives sends their envelopes, as far as the receiver may be given more.
bool PointToPoint::post_waiting(Rank r, Peer& p) {
  bool moved = false;
  while (!p.waiting.empty()) {
    const Operation& send = p.waiting.front();
    auto o = outgoing(r, Kind::kEager, p.sequence + 1);
    Envelope& e = o->envelope;
    e.type = send->type, e.tag = send->tag, e.count = send->count;
    const Bytes bytes = send->bytes();
    if (bytes <= std::min(kEagerBytes, lane_.max_bytes()) && p.eager - p.freed + cost(e) <= kBudget) {
      p.eager += cost(e);
      o->operation = send;
      if (bytes <= static_cast<Bytes>(Envelope::kSmall)) {
        if (bytes > 0) std::memcpy(e.small, send->data, static_cast<std::size_t>(bytes));
      } else {
        o->at = o->begin = send->data;
        o->left = o->bytes = bytes;
      }
    } else if (p.asked.size() < kMostAsked) {
      e.kind = Kind::kAsk;
      p.asked.emplace(e.sequence, send);
    } else {
      spare_.push_back(std::move(o));
      return moved;
    }
    send->sequence = ++p.sequence;
    p.out.push_back(std::move(o));
    p.waiting.pop_front();
    moved = true;
  }
  return moved;
}

bool PointToPoint::flush(Rank r, Peer& p) {
  bool moved = false;
  while (!p.out.empty()) {
    Outgoing& o = *p.out.front();
    if (!o.begun) {
      o.envelope.taken = p.taken;
      if (!lane_.send(r, reinterpret_cast<const std::byte*>(&o.envelope), sizeof o.envelope)) break;
      p.announced = p.taken;
      o.begun = moved = true;
    }
    for (Bytes piece; o.left > 0; o.at += piece, o.left -= piece) {
      piece = std::min(o.left, lane_.max_bytes());
      if (!lane_.send(r, o.at, piece)) break;
      moved = true;
    }
    if (o.left > 0) break;
    settling_.push_back(std::move(p.out.front()));
    p.out.pop_front();
  }
  control_waits_ |= !p.out.empty();
  settle();
  return moved;
}

bool PointToPoint::settle() {
  bool moved = false;
  for (std::size_t i = 0; i < settling_.size();) {
    Outgoing& o = *settling_[i];
    const bool read = lane_.reads(reinterpret_cast<const std::byte*>(&o.envelope), sizeof o.envelope) ||
                      (o.bytes > 0 && lane_.reads(o.begin, o.bytes));
    if (read) {
      ++i;
      continue;
    }
    if (o.operation) finish(std::exchange(o.operation, nullptr));
    spare_.push_back(std::move(settling_[i]));
    settling_.erase(settling_.begin() + static_cast<std::ptrdiff_t>(i));
    moved = true;
  }
  return moved;
}

bool PointToPoint::matches(const TaggedOperation& receive, Rank r, const Envelope& e) {
  return (receive.peer == kAnySource || receive.peer == r) && (receive.tag == kAnyTag || receive.tag == e.tag);
}

// The first receive that the message matches, taken from the list; null: none.
PointToPoint::Operation PointToPoint::match(Rank r, const Envelope& e) {
  const auto found =
      std::find_if(posted_.begin(), posted_.end(), [&](const Operation& o) { return matches(*o, r, e); });
  if (found == posted_.end()) return nullptr;
  Operation receive = *found;
  posted_.erase(found);
  if (receive->peer == kAnySource) {
    --any_;
    served_ = r;
  }
  return receive;
}

bool PointToPoint::bind(Rank r, const Envelope& e, const Operation& receive) {
  receive->partner = r;
  receive->sequence = e.sequence;
  receive->received = {.count = static_cast<std::size_t>(e.count), .source = r, .tag = e.tag};
  const bool same_type = e.type == receive->type;
  if (same_type && e.count <= receive->count) return true;
  std::string send = fmt::format("send of {} {} to rank {} with tag {}", e.count, name_of(e.type), rank_, e.tag);
  finish(receive, tl::make_unexpected(misfit({r, rank_}, {std::move(send), receive->text()}, same_type)));
  return false;
}

// A message whose bytes wait at its sender.
void PointToPoint::grant(Rank r, const Envelope& e, const Operation& receive) {
  Peer& p = peer(r);
  if (r != rank_) {
    if (!bind(r, e, receive)) return say(r, Kind::kRefuse, e.sequence, receive->count, receive->type);
    p.granted.emplace(e.sequence, receive);
    return say(r, Kind::kGo, e.sequence);
  }
  const auto own = p.asked.find(e.sequence);
  const Operation send = own->second;
  p.asked.erase(own);
  if (!bind(r, e, receive)) return finish(send, receive->status);
  if (send->count > 0) std::memcpy(receive->data, send->data, static_cast<std::size_t>(send->bytes()));
  finish(send);
  finish(receive);
}

void PointToPoint::free_eager(Rank r, Peer& p, const Envelope& e) {
  p.taken += cost(e);
  if (r == rank_) {
    p.freed = p.taken;
  } else if (p.taken - p.announced >= kBudget / 4) {
    say(r, Kind::kCredit, 0);
  }
}

void PointToPoint::give_to(Rank r, Unexpected message, const Operation& receive) {
  const Envelope& e = message.envelope;
  if (e.kind == Kind::kAsk) return grant(r, e, receive);
  if (bind(r, e, receive)) {
    if (!message.data.empty()) std::memcpy(receive->data, message.data.data(), message.data.size());
    finish(receive);
  }
  free_eager(r, peer(r), e);
}

void PointToPoint::begin_receive(const Operation& receive) {
  const bool any = receive->peer == kAnySource;
  if (!any) ++peer(receive->peer).awaited;
  for (Rank i = 1; i <= (any ? ranks_ : 1); ++i) {
    const Rank r = any ? (served_ + i) % ranks_ : receive->peer;
    auto& p = peers_[static_cast<std::size_t>(r)];
    if (!p) continue;
    const auto found = std::find_if(p->unexpected.begin(), p->unexpected.end(),
                                    [&](const Unexpected& u) { return matches(*receive, r, u.envelope); });
    if (found == p->unexpected.end()) continue;
    Unexpected message = std::move(*found);
    p->unexpected.erase(found);
    if (any) served_ = r;
    return give_to(r, std::move(message), receive);
  }
  posted_.push_back(receive);
  any_ += any ? 1 : 0;
}

bool PointToPoint::progress() {
  bool moved = settle();
  control_waits_ = false;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    Peer& p = peer(known_[i]);
    if (!p.waiting.empty()) moved |= post_waiting(known_[i], p);
    if (!p.out.empty()) moved |= flush(known_[i], p);
  }
  const Rank first = served_ + 1;
  for (Rank i = 0; i < ranks_; ++i) {
    const Rank r = (first + i) % ranks_;
    if (r == rank_) continue;
    auto& p = peers_[static_cast<std::size_t>(r)];
    const bool wanted = p && (p->awaited > 0 || !p->asked.empty() || !p->granted.empty() || p->into);
    if (any_ > 0 || wanted) moved |= read(r, peer(r));
  }
  return moved;
}

void PointToPoint::read_all() {
  for (Rank r = 0; r < ranks_; ++r)
    if (r != rank_ && lane_.has_met(r))
      while (read(r, peer(r))) continue;
}

bool PointToPoint::read(Rank r, Peer& p) {
  bool moved = false;
  for (int messages = 0; messages < kAtOnce && !fault_; ++messages) {
    if (!p.reading) {
      if (!lane_.receive(r, reinterpret_cast<std::byte*>(&p.envelope), sizeof p.envelope)) return moved;
      moved = p.reading = true;
      opened(r, p);
    }
    while (p.left > 0) {
      const Bytes piece = std::min(p.left, lane_.max_bytes());
      if (!lane_.receive(r, p.to, piece)) return moved;
      moved = true;
      if (!p.drops) p.to += piece;
      p.left -= piece;
    }
    p.reading = false;
    closed(r, p);
  }
  return moved;
}

void PointToPoint::damaged(Rank r, const char* what) {
  if (fault_) return;
  fault_ = Error{Code::kAborted, Blame::kCommunicator, fmt::format("what came from rank {} is damaged: {}", r, what)};
  fault_->ranks = {r};
}

// An envelope has come: where do its bytes go?
void PointToPoint::opened(Rank r, Peer& p) {
  const Envelope& e = p.envelope;
  p.left = 0;
  p.drops = false;
  if (e.kind < Kind::kEager || e.kind > Kind::kCredit || !is_type(e.type) ||
      e.count > kAddressSpace / static_cast<std::size_t>(size_of(e.type)))
    return damaged(r, "an envelope");
  if (e.taken < p.freed || e.taken > p.eager) return damaged(r, "the count of what it has taken");
  p.freed = e.taken;
  if (e.kind == Kind::kEager) {
    const Bytes bytes = bytes_of(e);
    if (bytes > kEagerBytes) return damaged(r, "a message that is too long");
    p.into = match(r, e);
    const bool fits = p.into && bind(r, e, p.into);
    if (bytes <= static_cast<Bytes>(Envelope::kSmall)) {
      if (fits && bytes > 0) std::memcpy(p.into->data, e.small, static_cast<std::size_t>(bytes));
      return;
    }
    p.left = bytes;
    if (!fits) p.buffer.resize(static_cast<std::size_t>(bytes));
    p.to = fits ? p.into->data : p.buffer.data();
  } else if (e.kind == Kind::kBytes) {
    const auto granted = p.granted.find(e.sequence);
    if (granted == p.granted.end()) return damaged(r, "bytes that were not asked for");
    p.into = granted->second;
    p.granted.erase(granted);
    p.left = bytes_of(e);
    if (p.into && (e.count != p.into->received.count || e.type != p.into->type))
      return damaged(r, "a message of another length than it said");
    p.drops = !p.into;
    if (p.drops) p.buffer.resize(static_cast<std::size_t>(lane_.max_bytes()));
    p.to = p.drops ? p.buffer.data() : p.into->data;
  }
}

void PointToPoint::closed(Rank r, Peer& p) {
  const Envelope& e = p.envelope;
  const Operation into = std::exchange(p.into, nullptr);
  if (fault_) return;
  const auto taken_from = [&](std::map<std::uint64_t, Operation>& all) {
    const auto found = all.find(e.sequence);
    if (found == all.end()) return Operation();
    Operation o = found->second;
    all.erase(found);
    return o;
  };
  switch (e.kind) {
    case Kind::kEager:
      if (!into) return arrived(r, p, std::exchange(p.buffer, {}));
      finish(into);  // unless the two did not agree
      return free_eager(r, p, e);
    case Kind::kAsk:
      return arrived(r, p, {});
    case Kind::kBytes:
      return into ? finish(into) : void();
    case Kind::kGo: {
      const Operation send = taken_from(p.asked);
      if (!send) return say(r, Kind::kGone, e.sequence);  // it was cancelled meanwhile
      auto o = outgoing(r, Kind::kBytes, e.sequence);
      o->envelope.type = send->type, o->envelope.tag = send->tag, o->envelope.count = send->count;
      o->at = o->begin = send->data;
      o->left = o->bytes = send->bytes();
      o->operation = send;
      p.out.push_back(std::move(o));
      flush(r, p);
      return;
    }
    case Kind::kRefuse: {
      const Operation send = taken_from(p.asked);
      if (!send) return;
      std::string receive = fmt::format("receive of up to {} {}", e.count, name_of(e.type));
      return finish(send,
                    tl::make_unexpected(misfit({r, rank_}, {std::move(receive), send->text()}, e.type == send->type)));
    }
    case Kind::kCancel:
      std::erase_if(p.unexpected, [&](const Unexpected& u) {
        return u.envelope.kind == Kind::kAsk && u.envelope.sequence == e.sequence;
      });
      return;
    case Kind::kGone:
      if (const Operation receive = taken_from(p.granted))
        finish(receive, failure_of(r, Code::kTimeout, Blame::kOperation, "rank {} has given up sending with tag {}", r,
                                   receive->received.tag));
      return;
    case Kind::kCredit:
      return;
  }
}

// A message that nobody waited for when its envelope came.
void PointToPoint::arrived(Rank r, Peer& p, std::vector<std::byte> data) {
  const Envelope& e = p.envelope;
  const Bytes bytes = bytes_of(e);
  if (e.kind == Kind::kEager && bytes <= static_cast<Bytes>(Envelope::kSmall)) data.assign(e.small, e.small + bytes);
  Unexpected message{e, std::move(data)};
  if (const Operation receive = match(r, e)) return give_to(r, std::move(message), receive);
  if (p.unexpected.size() > kMostAsked + kBudget / kEnvelopeCost) return damaged(r, "more messages than agreed");
  p.unexpected.push_back(std::move(message));
}

}  // namespace weft::session
