// Connections to a peer over several rails: what goes over which, and what happens to one that is lost.
//
// A rank that finds a connection lost closes it and says over another one how many of its frames have come (Loss). The
// peer closes it, too, and says the same. A rank with the count of the other sends again, over the others, what has not
// come, in order. Then the connection is made anew. Both count the losses, so that no late word is of another
// connection.

#include <sys/epoll.h>

#include <algorithm>
#include <thread>

#include "base/text.h"
#include "net/tcp/sockets.h"

namespace weft::net::tcp {
namespace {

using messages::Clock;

constexpr Bytes kPage = 4096;
constexpr Bytes kChooseFrom = Bytes{16} << 10;  // smaller messages stay on the main lane: asking costs as much
constexpr Bytes kLeastShare = Bytes{8} << 10;
constexpr double kUnknownRate = 1e9;
constexpr double kSmoothing = 0.3;
constexpr std::chrono::milliseconds kMeasureEvery{20}, kLookEvery{50}, kWaitForMain{300};

// Shares of `bytes` so that all lanes end at once, given what lies before each: the level to which vessels fill.
// `ahead` and the result are bytes; a lane with rate 0 gets nothing.
std::vector<Bytes> shares_of(Bytes bytes, const std::vector<double>& rates, const std::vector<Bytes>& ahead) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rates.size(); ++i)
    if (rates[i] > 0) order.push_back(i);
  const auto until = [&](std::size_t i) { return static_cast<double>(ahead[i]) / rates[i]; };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return until(a) < until(b); });
  double rate = 0, before = 0, level = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    rate += rates[order[n]];
    before += static_cast<double>(ahead[order[n]]);
    level = (static_cast<double>(bytes) + before) / rate;
    if (n + 1 == order.size() || level <= until(order[n + 1])) break;
  }
  std::vector<Bytes> shares(rates.size(), 0);
  Bytes given = 0;
  for (const std::size_t i : order) {
    const double share = level * rates[i] - static_cast<double>(ahead[i]);
    if (share < static_cast<double>(kLeastShare)) continue;
    shares[i] = std::min(static_cast<Bytes>(share) / kPage * kPage, bytes - given);
    given += shares[i];
  }
  if (!order.empty()) shares[order.front()] += bytes - given;
  return shares;
}

}  // namespace

std::uint32_t Sockets::losses(Rank peer, int lane) const {
  if (!rails_ || peers_[static_cast<std::size_t>(peer)].empty()) return 0;
  return ways_[static_cast<std::size_t>(peer)].lanes[static_cast<std::size_t>(lane)].losses;
}

std::string Sockets::describe_lanes(Rank peer) const {
  const Wires& own = peers_[static_cast<std::size_t>(peer)];
  std::string text;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Lane* const lane = rails_ ? &ways_[static_cast<std::size_t>(peer)].lanes[i] : nullptr;
    text += fmt::format("{}connection {}: {}", text.empty() ? "" : ", ", i, format_bytes(own[i]->carried()));
    if (lane != nullptr && lane->rate > 0) text += fmt::format(" at {}", format_rate(BytesPerSecond{lane->rate}));
    if (lane != nullptr && lane->losses > 0) text += fmt::format(", lost {} times", lane->losses);
  }
  return text;
}

int Sockets::lane_of(const Wire& wire) {
  const Wires& own = wires(wire.peer());
  return static_cast<int>(std::find_if(own.begin(), own.end(), [&](const auto& w) { return w.get() == &wire; }) -
                          own.begin());
}

Wire* Sockets::other(Rank peer, int than) {
  const Wires& own = wires(peer);
  for (int lane = 0; lane < lanes_; ++lane) {
    Wire& wire = *own[static_cast<std::size_t>(lane)];
    if (lane != than && wire.attached() && !wire.ended()) return &wire;
  }
  return nullptr;
}

// A main lane that cannot be opened gives what waits for it to another.
void Sockets::choose_main(Rank peer) {
  Way& way = ways_[static_cast<std::size_t>(peer)];
  Wire& main = *wires(peer)[static_cast<std::size_t>(way.main)];
  if (main.attached() || way.lanes[static_cast<std::size_t>(way.main)].lost) return;
  Wire* const next = other(peer, way.main);
  if (next == nullptr || Clock::now() - way.attached < kWaitForMain) return;
  main.hand_over(0, *next);
  note_busy(*next);
  way.main = lane_of(*next);
}

void Sockets::measure(Rank peer) {
  Way& way = ways_[static_cast<std::size_t>(peer)];
  const auto now = Clock::now();
  for (std::size_t i = 0; i < way.lanes.size(); ++i) {
    Lane& lane = way.lanes[i];
    const auto passed = now - lane.measured;
    if (passed < kMeasureEvery) continue;
    const Wire& wire = *wires(peer)[i];
    const Bytes backlog = wire.backlog(), delivered = wire.carried() - backlog;
    const double rate = static_cast<double>(delivered - lane.delivered) / std::chrono::duration<double>(passed).count();
    if (lane.full && backlog > 0 && rate > 0)
      lane.rate = lane.rate > 0 ? (1 - kSmoothing) * lane.rate + kSmoothing * rate : rate;
    lane.measured = now;
    lane.delivered = delivered;
    lane.full = backlog > 0;
  }
}

void Sockets::send_by_rates(const Route& route, const Frame& frame, const std::byte* payload, const Block& block,
                            bool more_follows) {
  const Rank peer = route.peer;
  const Contexts contexts{route.own, route.peers};
  choose_main(peer);
  Way& way = ways_[static_cast<std::size_t>(peer)];
  Wires& own = wires(peer);
  Wire& main = *own[static_cast<std::size_t>(way.main)];
  const Bytes bytes = frame.length;
  if (bytes < kChooseFrom || (frame.flags & messages::kEnd) == 0 || frame.offset > 0 || !main.attached()) {
    main.send(frame, payload, block, more_follows, contexts);
    return note_busy(main);
  }
  measure(peer);
  double fastest = 0;
  for (const Lane& lane : way.lanes) fastest = std::max(fastest, lane.rate);
  std::vector<double> rates;
  std::vector<Bytes> ahead;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool carries = own[i]->attached() && !own[i]->ended() && !way.lanes[i].lost;
    const double known = way.lanes[i].rate > 0 ? way.lanes[i].rate : fastest > 0 ? fastest : kUnknownRate;
    rates.push_back(carries ? known : 0);
    ahead.push_back(carries ? own[i]->backlog() : 0);
  }
  Frame part = frame;
  part.flags = messages::kEnd | messages::kStriped;
  Bytes at = 0;
  const auto shares = shares_of(bytes, rates, ahead);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (shares[i] == 0) continue;
    part.offset = static_cast<std::uint32_t>(at);
    part.length = static_cast<std::uint32_t>(shares[i]);
    own[i]->send(part, payload + at, block, false, contexts);
    at += shares[i];
    note_busy(*own[i]);
  }
}

void Sockets::lose(Rank peer, int lane, const std::string& why) {
  Wire& wire = *wires(peer)[static_cast<std::size_t>(lane)];
  Lane& own = ways_[static_cast<std::size_t>(peer)].lanes[static_cast<std::size_t>(lane)];
  Wire* const over = other(peer, lane);
  if (own.lost || over == nullptr) return;
  const auto unfinished = wire.unfinished();
  const std::uint32_t received = wire.received();
  if (wire.attached()) epoll_ctl(epoll_, EPOLL_CTL_DEL, wire.fd(), nullptr);
  wire.freeze();
  own.lost = true;
  note_busy(wire);
  std::erase(owing_, &wire);
  if (unfinished) receiver_.forget(peer, unfinished->context, unfinished->frame);
  over->report({.lane = static_cast<std::uint16_t>(lane), .before = own.losses, .received = received});
  note_busy(*over);
  receiver_.lost(peer, lane, why);
  if (own.reported) replace(peer, lane);
}

void Sockets::note_reported(Rank peer, const Loss& loss) {
  if (loss.lane >= lanes_) return;
  Lane& own = ways_[static_cast<std::size_t>(peer)].lanes[loss.lane];
  if (loss.before != own.losses) return;  // said twice
  own.reported = loss.received;
  if (own.lost)
    replace(peer, loss.lane);
  else
    lose(peer, loss.lane, "the peer says so");
}

// Both ends know what has come on it.
void Sockets::replace(Rank peer, int lane) {
  Way& way = ways_[static_cast<std::size_t>(peer)];
  Lane& own = way.lanes[static_cast<std::size_t>(lane)];
  Wire* const next = other(peer, lane);
  if (next == nullptr) return;
  if (way.main == lane) way.main = lane_of(*next);
  Wire& main = *wires(peer)[static_cast<std::size_t>(way.main)];
  wires(peer)[static_cast<std::size_t>(lane)]->hand_over(*own.reported, main);
  note_busy(main);
  own = {.losses = own.losses + 1};
  receiver_.reopen(peer, lane);
}

// A rail that is cut answers nothing, while another to the same peer does.
void Sockets::find_silent() {
  const auto now = Clock::now();
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    Wire& wire = *all_[i];
    if (!wire.attached() || wire.ended() || !wire.silent()) continue;
    const int lane = lane_of(wire);
    const Wire* const next = other(wire.peer(), lane);
    if (next != nullptr && !next->silent()) lose(wire.peer(), lane, "nothing has come back for three timeouts");
  }
}

// Frames on a rail that is cut reach the peer by another, before this rank closes them all.
void Sockets::settle_before_leaving(Clock::time_point deadline) {
  const auto settled = [&] {
    return std::all_of(all_.begin(), all_.end(), [&](Wire* wire) {
      const Lane& lane = ways_[static_cast<std::size_t>(wire->peer())].lanes[static_cast<std::size_t>(lane_of(*wire))];
      return !lane.lost && (!wire->attached() || wire->ended() || wire->backlog() == 0);
    });
  };
  while (!settled() && Clock::now() < deadline) {
    if (!pump_all()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace weft::net::tcp
