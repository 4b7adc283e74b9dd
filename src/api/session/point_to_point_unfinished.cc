// Operations that are not done: how they are cancelled, fail, and whom they wait for.

#include <algorithm>

#include "api/session/point_to_point.h"

namespace weft::session {

bool PointToPoint::cancel(const Operation& o, const Error& error) {
  const auto same = [&](const Operation& other) { return other == o; };
  if (o->done) return true;
  if (!o->sends) {
    if (const auto found = std::find_if(posted_.begin(), posted_.end(), same); found != posted_.end()) {
      posted_.erase(found);
      any_ -= o->peer == kAnySource ? 1 : 0;
    } else {
      auto& granted = peer(o->partner).granted;
      const auto waits = granted.find(o->sequence);
      if (waits == granted.end() || waits->second != o) return false;
      waits->second = nullptr;  // what comes is dropped
    }
    finish(o, tl::make_unexpected(error));
    return true;
  }
  Peer& p = peer(o->peer);
  if (const auto found = std::find_if(p.waiting.begin(), p.waiting.end(), same); found != p.waiting.end()) {
    p.waiting.erase(found);
  } else {
    const auto asked = p.asked.find(o->sequence);
    const bool asks = asked != p.asked.end() && asked->second == o;
    const auto queued = std::find_if(p.out.begin(), p.out.end(), [&](const auto& out) {
      return out->envelope.sequence == o->sequence && !out->begun &&
             (asks ? out->envelope.kind == Kind::kAsk : out->operation == o);
    });
    const bool unsent = queued != p.out.end() && (*queued)->envelope.kind != Kind::kBytes;
    if (!asks && !unsent) return false;
    if (asks) p.asked.erase(asked);
    if (unsent) {
      if ((*queued)->envelope.kind == Kind::kEager) p.eager -= cost((*queued)->envelope);
      spare_.push_back(std::move(*queued));
      p.out.erase(queued);
    } else if (o->peer == rank_) {
      std::erase_if(p.unexpected, [&](const Unexpected& u) { return u.envelope.sequence == o->sequence; });
    } else {
      say(o->peer, Kind::kCancel, o->sequence);
    }
  }
  finish(o, tl::make_unexpected(error));
  return true;
}

PointToPoint::Operation PointToPoint::unfinished() const {
  if (!posted_.empty()) return posted_.front();
  for (const auto& o : settling_)
    if (o->operation) return o->operation;
  for (const Rank r : known_) {
    const Peer& p = *peers_[static_cast<std::size_t>(r)];
    if (!p.waiting.empty()) return p.waiting.front();
    for (const auto& o : p.out)
      if (o->operation) return o->operation;
    if (!p.asked.empty()) return p.asked.begin()->second;
    for (const auto& [sequence, o] : p.granted)
      if (o) return o;
    if (p.into) return p.into;
  }
  return nullptr;
}

void PointToPoint::fail_all(const Error& error) {
  const Status failed = tl::make_unexpected(error);
  for (const Operation& o : std::exchange(posted_, {})) finish(o, failed);
  any_ = 0;
  for (auto& o : std::exchange(settling_, {}))
    if (o->operation) finish(o->operation, failed);
  for (const Rank r : known_) {
    Peer& p = peer(r);
    for (const Operation& o : std::exchange(p.waiting, {})) finish(o, failed);
    for (auto& o : std::exchange(p.out, {}))
      if (o->operation) finish(o->operation, failed);
    for (const auto& [sequence, o] : std::exchange(p.asked, {})) finish(o, failed);
    for (const auto& [sequence, o] : std::exchange(p.granted, {}))
      if (o) finish(o, failed);
    if (const Operation o = std::exchange(p.into, nullptr)) finish(o, failed);
  }
  control_waits_ = false;
}

std::vector<Rank> PointToPoint::awaited(const TaggedOperation& o) const {
  if (o.done) return {};
  if (o.partner >= 0) return o.partner == rank_ ? std::vector<Rank>{} : std::vector<Rank>{o.partner};
  if (o.peer == rank_) return {};
  if (o.peer != kAnySource) return {o.peer};
  std::vector<Rank> all;
  for (Rank r = 0; r < ranks_; ++r)
    if (r != rank_ && !lane_.has_left(r)) all.push_back(r);
  return all;
}

std::string PointToPoint::unexpected() const {
  constexpr int kMost = 4;
  std::string text;
  int named = 0;
  for (const Rank r : known_)
    for (const Unexpected& u : peers_[static_cast<std::size_t>(r)]->unexpected) {
      if (++named > kMost) return text + ", …";
      text += fmt::format("{}rank {}, tag {}", text.empty() ? "" : "; ", r, u.envelope.tag);
    }
  return text;
}

std::optional<Rank> PointToPoint::unexpected_from() const {
  for (const Rank r : known_)
    if (!peers_[static_cast<std::size_t>(r)]->unexpected.empty()) return r;
  return std::nullopt;
}

}  // namespace weft::session
