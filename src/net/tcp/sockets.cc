#include "net/tcp/sockets.h"

#include <sys/epoll.h>

#include <algorithm>
#include <thread>

namespace weft::net::tcp {
namespace {

constexpr Bytes kStripeFrom = Bytes{64} << 10;  // smaller messages cross one connection

}  // namespace

Sockets::Sockets(std::size_t ranks, int lanes, bool rails, ZeroCopy zero_copy, const link::Sealing& sealing,
                 std::chrono::milliseconds timeout, messages::Receiver& receiver, int epoll)
    : lanes_(lanes),
      rails_(rails),
      zero_copy_(zero_copy),
      sealing_(sealing),
      timeout_(timeout),
      receiver_(receiver),
      epoll_(epoll),
      peers_(ranks),
      ways_(rails ? ranks : 0) {}

Sockets::Wires& Sockets::wires(Rank peer) {
  Wires& own = peers_[static_cast<std::size_t>(peer)];
  if (!own.empty()) [[likely]]
    return own;
  Splicer* const splicer = zero_copy_ == ZeroCopy::kNever || rails_ ? nullptr : &splicer_;
  for (int lane = 0; lane < lanes_; ++lane)
    all_.push_back(own.emplace_back(std::make_unique<Wire>(peer, splicer, sealing_.on() ? &sealed_ : nullptr,
                                                           rails_ ? &journal_ : nullptr))
                       .get());
  for (const auto& wire : own) wire->share(shared_);
  if (rails_) ways_[static_cast<std::size_t>(peer)].lanes.resize(static_cast<std::size_t>(lanes_));
  return own;
}

void Sockets::attach(Rank peer, int lane, UniqueFd fd, const link::Handshake& greeting) {
  Wire& wire = *wires(peer)[static_cast<std::size_t>(lane)];
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &wire}};
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, fd.get(), &event) != 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, fd.get(), &event);
  if (zero_copy_ == ZeroCopy::kByAdapter && !link::leaves_by_adapter(fd.get())) wire.copy_always();
  if (sealing_.on()) wire.seal_by(sealing_, greeting);
  wire.attach(std::move(fd), timeout_);
  note_busy(wire);
  if (!rails_) return;
  Way& way = ways_[static_cast<std::size_t>(peer)];
  if (way.attached == messages::Clock::time_point{}) way.attached = messages::Clock::now();
}

bool Sockets::attached(Rank peer, int lane) const {
  const Wires& own = peers_[static_cast<std::size_t>(peer)];
  if (own.empty()) return false;
  const bool lost = rails_ && ways_[static_cast<std::size_t>(peer)].lanes[static_cast<std::size_t>(lane)].lost;
  return lost || own[static_cast<std::size_t>(lane)]->attached();  // a lost one makes place when both ends know
}

void Sockets::send(const Route& route, const Frame& frame, const std::byte* payload, const Block& block,
                   bool more_follows) {
  Wires& own = wires(route.peer);
  const Contexts contexts{route.own, route.peers};
  const Bytes bytes = frame.length;
  if (rails_) return send_by_rates(route, frame, payload, block, more_follows);
  if (lanes_ == 1 || bytes < kStripeFrom || (frame.flags & messages::kEnd) == 0 || frame.offset > 0) {
    own[0]->send(frame, payload, block, more_follows, contexts);
    return note_busy(*own[0]);
  }
  constexpr Bytes kPage = 4096;
  const Bytes share = ((bytes + lanes_ - 1) / lanes_ + kPage - 1) / kPage * kPage;
  Frame part = frame;
  part.flags = messages::kEnd | messages::kStriped;
  Bytes at = 0;
  for (int lane = 0; lane < lanes_ && at < bytes; ++lane, at += share) {
    part.offset = static_cast<std::uint32_t>(at);
    part.length = static_cast<std::uint32_t>(std::min(share, bytes - at));
    Wire& wire = *own[static_cast<std::size_t>(lane)];
    wire.send(part, payload + at, block, false, contexts);
    note_busy(wire);
  }
}

void Sockets::note_busy(Wire& wire) {
  if (!wire.idle() && std::find(busy_.begin(), busy_.end(), &wire) == busy_.end()) busy_.push_back(&wire);
}

// Nothing of it needs a look: what an ended connection carried is lost, what a frozen one did waits for another.
bool Sockets::is_quiet(const Wire& wire) { return wire.frozen() ? wire.idle() : wire.ended() || wire.idle(); }

// Also of a connection that has ended: nothing happens then.
void Sockets::confirm() {
  for (Wire* wire : owing_) {
    wire->confirm();
    note_busy(*wire);
  }
  owing_.clear();
}

Rank Sockets::unsettled(ContextId own) {
  confirm();
  if (rails_) find_silent();
  for (Wire* wire : busy_) wire->flush();
  std::erase_if(busy_, [](const Wire* wire) { return is_quiet(*wire); });
  const auto found = std::find_if(busy_.begin(), busy_.end(), [own](const Wire* wire) { return wire->carries(own); });
  return found == busy_.end() ? -1 : (*found)->peer();
}

Rank Sockets::reader_of(ContextId own, const std::byte* begin, const std::byte* end) const {
  for (const Wire* wire : busy_)
    if (wire->touches(own, begin, end)) return wire->peer();
  return -1;
}

bool Sockets::reads_callers(Rank peer, ContextId own) const {
  return std::any_of(busy_.begin(), busy_.end(),
                     [&](const Wire* wire) { return wire->peer() == peer && wire->touches_callers(own); });
}

// Part of such a frame may have been sent, so that nothing else can follow it.
void Sockets::drop_callers(ContextId own) {
  std::erase_if(busy_, [&](Wire* wire) {
    if (!wire->touches_callers(own) || ((shared_ || wire->frozen()) && wire->copy_callers(own, sealed_))) return false;
    wire->reset("a call of this rank has failed");
    return true;
  });
}

void Sockets::divert(ContextId own) {
  if (!shared_) return;  // nothing is read any more
  if (!sink_) sink_ = sealed_.take();
  for (Wire* wire : all_) wire->divert(own, sink_.data());
}

void Sockets::share(bool several) {
  shared_ = several;
  for (Wire* wire : all_) wire->share(several);
}

bool Sockets::drain(Wire& wire) {
  const bool owed = wire.owes_confirmation();
  const bool moved = wire.receive(receiver_);
  if (!owed && wire.owes_confirmation()) owing_.push_back(&wire);
  if (rails_) {
    const int lane = lane_of(wire);
    for (const Loss& loss : wire.take_reports()) note_reported(wire.peer(), loss);
    if (ways_[static_cast<std::size_t>(wire.peer())].lanes[static_cast<std::size_t>(lane)].lost) return moved;
    if (wire.broke() && other(wire.peer(), lane) != nullptr) {
      lose(wire.peer(), lane, wire.end_reason());
      return true;
    }
  }
  if (!wire.ended()) return moved;
  if (wire.attached()) epoll_ctl(epoll_, EPOLL_CTL_DEL, wire.fd(), nullptr);
  // One that was closed may have left others unread, with the goodbye or what was sent before it.
  const Wires& all = wires(wire.peer());
  const auto open = [](const auto& w) { return w->attached() && !w->ended(); };
  if (!wire.broke() && std::any_of(all.begin(), all.end(), open)) return moved;
  if (rails_)
    for (const auto& w : all) w->forget();
  receiver_.ended(wire.peer(), wire.end_reason());
  return moved;
}

bool Sockets::pump(Rank peer) {
  bool moved = false;
  for (auto& wire : wires(peer)) {
    if (!wire->idle()) wire->flush();
    moved |= drain(*wire);
  }
  return moved;
}

bool Sockets::pump_all() {
  bool moved = false;
  confirm();
  if (rails_) find_silent();
  for (Wire* wire : busy_) wire->flush();
  std::erase_if(busy_, [](const Wire* wire) { return is_quiet(*wire); });
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i]->attached() && !all_[i]->ended()) moved |= drain(*all_[i]);
  return moved;
}

bool Sockets::may_sleep() {
  confirm();  // a peer may sleep until then
  if (rails_) find_silent();
  for (Wire* wire : all_) {
    if (!wire->attached() || wire->ended()) continue;
    if (wire->holds_bytes()) return false;
    if (wire->wants_output() == wire->watched_for_output) continue;
    wire->watched_for_output = wire->wants_output();
    epoll_event event{.events = EPOLLIN | (wire->wants_output() ? unsigned{EPOLLOUT} : 0u), .data = {.ptr = wire}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, wire->fd(), &event);
  }
  return true;
}

void Sockets::woken(void* what) {
  auto* wire = static_cast<Wire*>(what);
  wire->flush();
  drain(*wire);
}

void Sockets::leave(messages::Clock::duration longest) {
  const auto deadline = messages::Clock::now() + longest;
  if (rails_) settle_before_leaving(deadline);
  std::vector<Wire*> open;
  for (Wire* wire : all_) {
    if (!wire->attached() || wire->ended()) continue;
    open.push_back(wire);
    wire->flush();
    shutdown(wire->fd(), SHUT_WR);
  }
  for (;;) {
    std::erase_if(open, [](Wire* wire) { return link::delivered(wire->fd()); });
    if (open.empty() || messages::Clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace weft::net::tcp
