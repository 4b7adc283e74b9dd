// Opens connections between ranks. The rank that first needs one opens it; if both do at once, the lower rank's
// counts: it refuses the other's while its own is under way, and the higher rank gives its own up.

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>

#include "net/messages/hub.h"

namespace weft::net::messages {

using link::Claim;
using link::Handshake;

namespace {

constexpr std::size_t kGuests = 64;  // greetings under way; more wait in the listener's queue
constexpr std::chrono::seconds kGreetingTime{5};
constexpr std::chrono::milliseconds kSilentTime{50};  // then a guest that has said nothing may have to make place
constexpr std::chrono::milliseconds kRetryAfter{20};
constexpr std::chrono::microseconds kListenEvery{100};
constexpr std::uint32_t kLaneBits = 8;  // of a claim's detail; above: how often the connection has been lost
constexpr std::chrono::milliseconds kRailTime{1000};  // until a connection that is lost or not made is tried again
// More guests than this are strangers, most likely: each costs a system call per look, so looks become rare.
constexpr std::size_t kCrowd = 8;
constexpr std::chrono::microseconds kCrowdEvery{1000};

bool is_ready(int fd, short event) {
  pollfd watched{fd, event, 0};
  return poll(&watched, 1, 0) > 0;
}

}  // namespace

bootstrap::Record Hub::record_of(Rank r) const {
  if (static_cast<std::size_t>(r) < records_.size()) return records_[static_cast<std::size_t>(r)];
  bootstrap::Record node = records_.front();
  node.data.port = node.aggregation_port;
  return node;
}

void Hub::open(ContextId own, Rank peer) {
  const Rank r = find(own)->here[static_cast<std::size_t>(peer)];
  if (started_[static_cast<std::size_t>(r)]) return;
  started_[static_cast<std::size_t>(r)] = true;
  for (int lane = 0; lane < carrier_->lanes(); ++lane) {
    if (carrier_->attached(r, lane) || own_opening(r, lane)) continue;
    if (!start_opening(own, r, lane)) return;
  }
}

bool Hub::start_opening(ContextId own, Rank r, int lane) {
  const link::Route route = route_to(r, lane);
  auto fd = link::start_connect(route.to, route.from);
  if (!fd) {
    if (Context* const context = find(own); context != nullptr && fd.error().code == Code::kNoResources)
      context->user->exhausted(fd.error());
    else
      opening_failed(r, lane, fd.error().message);
    return carrier_->outlives_lanes() && ends_[static_cast<std::size_t>(r)].empty();
  }
  const std::uint32_t detail = static_cast<std::uint32_t>(lane) | carrier_->losses(r, lane) << kLaneBits;
  const Claim claim{.purpose = link::kData, .from = rank_, .to = r, .detail = detail};
  openings_.push_back({std::move(*fd), Handshake(Handshake::Role::kOpener, key_, claim), r, lane, Clock::now(), true});
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, openings_.back().fd.get(), &event);
  return true;
}

link::Route Hub::route_to(Rank r, int lane) const {
  const bootstrap::Record peer = record_of(r);
  const auto ranks = static_cast<Rank>(records_.size());
  if (!carrier_->outlives_lanes() || rank_ >= ranks || r >= ranks) return {.to = peer.data};
  return link::route_of(record_of(rank_).all_rails(), peer.all_rails(), lane);
}

void Hub::opening_failed(Rank r, int lane, const std::string& why) {
  const auto others = [&] {
    return attached_[static_cast<std::size_t>(r)] ||
           std::any_of(openings_.begin(), openings_.end(),
                       [&](const Opening& o) { return o.fd.open() && o.peer == r && o.lane != lane; });
  };
  const bool first = Clock::now() - since_ < kRailTime;
  if (!carrier_->outlives_lanes() || !(first || others())) return ended(r, why);
  log_->info(LogPart::kFault, "connection {} to rank {} cannot be made: {}", lane, r, why);
  retries_.push_back({r, lane, Clock::now() + kRailTime});
}

void Hub::lost(Rank r, int lane, const std::string& why) {
  const link::Route route = route_to(r, lane);
  log_->warn(LogPart::kNet, "connection {} with {}{} is lost ({}); its messages go over the others", lane,
             record_of(r).text(), route.text(), why);
}

void Hub::reopen(Rank r, int lane) {
  if (rank_ < r) retries_.push_back({r, lane, Clock::now() + kRailTime});
}

// A connection that breaks before its greeting is over may have had to make place for others: it is tried again, for as
// long as the other side listens.
void Hub::retry_openings() {
  const auto due = [now = Clock::now()](const Retry& r) { return now >= r.at; };
  for (std::size_t i = 0; i < retries_.size(); ++i) {
    const Retry again = retries_[i];
    if (!due(again) || carrier_->attached(again.peer, again.lane) || own_opening(again.peer, again.lane)) continue;
    log_->info(LogPart::kFault, "connection {} to rank {} is tried again", again.lane, again.peer);
    start_opening(current_, again.peer, again.lane);
  }
  std::erase_if(retries_, due);
}

// Those that say nothing make place; while all do, nobody is accepted.
bool Hub::has_place_for_guest() {
  if (guests_.size() < kGuests) return true;
  const auto silent = std::find_if(guests_.begin(), guests_.end(), [now = Clock::now()](const Opening& o) {
    return o.handshake.silent() && now - o.since > kSilentTime;
  });
  if (silent == guests_.end()) return false;
  guests_.erase(silent);
  return true;
}

bool Hub::own_opening(Rank r, int lane) const {
  return std::any_of(openings_.begin(), openings_.end(),
                     [&](const Opening& o) { return o.fd.open() && o.peer == r && o.lane == lane; });
}

void Hub::drop_own_opening(Rank r, int lane) {
  for (Opening& o : openings_)
    if (o.peer == r && o.lane == lane) o.fd.reset();
}

void Hub::attach(Opening& opening, bool own) {
  const Rank r = opening.peer;
  if (log_->writes(LogLevel::kInfo, LogPart::kNet))
    log_->info(LogPart::kNet, "connection {} with {}{} is there, opened by {}", opening.lane, record_of(r).text(),
               link::text_of_route(opening.fd.get()), own ? "this rank" : "it");
  carrier_->attach(r, opening.lane, std::move(opening.fd), opening.handshake);
  const auto at = static_cast<std::size_t>(r);
  const bool again = carrier_->outlives_lanes() && attached_[at] && ends_[at].empty();
  ends_[at].clear();  // another attempt had failed
  started_[at] = true;
  if (again) return;  // by a further connection
  for (int lane = 0; !carrier_->outlives_lanes() && lane < carrier_->lanes(); ++lane)
    if (!carrier_->attached(r, lane)) return;
  attached_[at] = true;
  each_with(r, [](User& user, Rank peer) { user.connected(peer); });
}

std::chrono::microseconds Hub::listens_every() const {
  return guests_.empty() ? kListenEvery : guests_.size() < kCrowd ? std::chrono::microseconds(0) : kCrowdEvery;
}

bool Hub::progress_guests() {
  listened_ = Clock::now();
  while (has_place_for_guest() && is_ready(listener_.get(), POLLIN)) {  // to accept in vain costs eight times as much
    auto fd = link::accept_from(listener_.get());
    if (!fd) {
      if (Context* const context = find(current_); context != nullptr && context->user != nullptr)
        context->user->exhausted(fd.error());
      break;
    }
    if (!fd->open()) break;
    if (rank_ < static_cast<Rank>(records_.size()) && !record_of(rank_).has_rail(link::local_address(fd->get())))
      continue;  // by an interface that is not to be used
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd->get(), &event);
    guests_.push_back({std::move(*fd), Handshake(Handshake::Role::kAcceptor, key_), -1, 0, Clock::now(), false});
  }
  bool moved = false;
  for (Opening& o : guests_) moved |= progress_guest(o);
  return moved;
}

bool Hub::progress_openings() {
  retry_openings();
  bool moved = (guests_.empty() || Clock::now() - listened_ >= listens_every()) && progress_guests();
  for (std::size_t i = 0; i < openings_.size(); ++i) {
    Opening& o = openings_[i];
    if (!o.fd.open()) continue;
    if (o.connecting) {
      const int error = link::connect_error(o.fd.get());
      const bool slow = carrier_->outlives_lanes() && Clock::now() - o.since > 2 * kRailTime;
      if (error != 0 || (slow && !is_ready(o.fd.get(), POLLOUT))) {
        o.fd.reset();
        opening_failed(o.peer, o.lane,
                       error != 0 ? fmt::format("it does not listen any more: {}", std::strerror(error)) : "no answer");
        continue;
      }
      if (!is_ready(o.fd.get(), POLLOUT)) continue;
      o.connecting = false;
    }
    const auto state = o.handshake.advance(o.fd.get());
    if (state == Handshake::State::kDone) {
      attach(o, true);
      moved = true;
    } else if (state == Handshake::State::kFailed) {
      // A refusal as a duplicate means that the peer's own attempt counts.
      if (o.handshake.broke()) {
        log_->info(LogPart::kFault, "connection {} to rank {} broke in its greeting: {}", o.lane, o.peer,
                   o.handshake.problem());
        retries_.push_back({o.peer, o.lane, Clock::now() + kRetryAfter});
      } else if (o.handshake.refused() != link::kRefusedDuplicate) {
        // A rail's address may be another host's, too, or this one's: bridges of containers have the same everywhere.
        opening_failed(o.peer, o.lane, o.handshake.problem());
      } else if (carrier_->outlives_lanes()) {  // or that it does not know yet that the connection was lost
        retries_.push_back({o.peer, o.lane, Clock::now() + kRailTime});
      }
      o.fd.reset();
    }
  }
  const auto closed = [](const Opening& o) { return !o.fd.open(); };
  std::erase_if(openings_, closed);
  std::erase_if(guests_, closed);
  return moved;
}

bool Hub::progress_guest(Opening& o) {
  o.handshake.advance(o.fd.get());
  if (o.handshake.proved() && o.peer < 0) {
    const Claim& c = o.handshake.claim();
    const std::uint32_t lane = c.detail & ((1U << kLaneBits) - 1);
    if (c.purpose != link::kData || c.to != rank_ || c.from < 0 || c.from >= static_cast<Rank>(records_.size()) ||
        c.from == rank_ || lane >= static_cast<std::uint32_t>(carrier_->lanes())) {
      o.handshake.refuse(link::kRefusedRanks);
    } else {
      o.peer = c.from;
      o.lane = static_cast<int>(lane);
      const bool taken =
          carrier_->attached(o.peer, o.lane) || carrier_->losses(o.peer, o.lane) != c.detail >> kLaneBits;
      if (taken || (own_opening(o.peer, o.lane) && rank_ < o.peer)) {
        o.handshake.refuse(link::kRefusedDuplicate);
      } else {
        drop_own_opening(o.peer, o.lane);
        o.handshake.accept();
      }
    }
    o.handshake.advance(o.fd.get());
  }
  if (o.handshake.state() == Handshake::State::kDone) {
    attach(o, false);
    return true;
  }
  if (o.handshake.state() == Handshake::State::kFailed || Clock::now() - o.since > kGreetingTime) o.fd.reset();
  return false;
}

}  // namespace weft::net::messages
