#include "net/messages/hub.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

namespace weft::net::messages {
namespace {

constexpr ContextId kOfHub = ~ContextId{0};                                    // of frames between hubs
constexpr std::size_t kMostEarly = std::size_t{kMostUnderWay + 2} * kStreams;  // of a peer: more than it may send ahead

}  // namespace

Hub::Hub(const bootstrap::Meeting& meeting, UniqueFd listener, Rank rank, Rank last, const MakeCarrier& make_carrier)
    : records_(meeting.ranks),
      key_(meeting.key),
      log_(meeting.log),
      listener_(std::move(listener)),
      rank_(rank),
      last_(last),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      ends_(static_cast<std::size_t>(last)),
      started_(ends_.size()),
      attached_(ends_.size()) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event);
  carrier_ = make_carrier(*this, epoll_.get());
  contexts_.try_emplace(next_++);
}

Hub::~Hub() = default;

Hub::Offer Hub::offer(const std::shared_ptr<Hub>& hub) {
  if (!hub->shared()) {  // nobody else has used it so far
    hub->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &hub->wake_}};
    epoll_ctl(hub->epoll_.get(), EPOLL_CTL_ADD, hub->wake_.get(), &event);
    hub->shared_.store(true, std::memory_order_release);
  }
  const Guard guard = hub->guard();
  const ContextId number = hub->next_++;
  hub->contexts_.try_emplace(number);
  hub->carrier_->share(hub->contexts_.size() > 1);
  return {hub, number};
}

Hub::Context* Hub::find(ContextId number) {
  if (found_ != nullptr && found_number_ == number) return found_;
  const auto found = contexts_.find(number);
  if (found == contexts_.end()) return nullptr;
  found_number_ = number;
  return found_ = &found->second;
}

void Hub::withdraw(ContextId own) {
  const Guard locked = guard();
  Context* const context = find(own);
  if (context == nullptr || context->user != nullptr) return;
  // Peers that have made the group learn that this rank is not in it: what they sent early waits for an answer.
  const std::deque<Early> early = std::exchange(context->early, {});
  erase(own);
  for (const Early& e : early) answer_gone(e.peer, own, e.frame);
}

void Hub::erase(ContextId own) {
  found_ = nullptr;
  contexts_.erase(own);
  if (!contexts_.empty()) carrier_->share(contexts_.size() > 1);
}

void Hub::join(ContextId own, const Places& places, User& user) {
  const Guard locked = guard();
  Context& context = *find(own);
  context.ranks.assign(ends_.size(), -1);
  context.said_last.assign(ends_.size(), false);
  context.here = places.ranks;
  context.numbers = places.numbers;
  for (std::size_t r = 0; r < places.ranks.size(); ++r)
    context.ranks[static_cast<std::size_t>(places.ranks[r])] = static_cast<Rank>(r);
  context.user = &user;
  for (std::size_t r = 0; r < context.here.size(); ++r)
    if (const std::string& end = ends_[static_cast<std::size_t>(context.here[r])]; !end.empty())
      user.ended(static_cast<Rank>(r), end);
  deliver_early(context);
}

void Hub::close(ContextId own, Clock::duration longest, std::shared_ptr<void> kept) {
  const auto until = Clock::now() + longest;
  for (;; std::this_thread::sleep_for(std::chrono::microseconds(200))) {
    const Guard locked = guard();
    if (contexts_.size() == 1) {
      log_lanes();
      carrier_->leave(longest);
      return erase(own);
    }
    pump_all(own);
    if (carrier_->unsettled(own) >= 0 && Clock::now() < until) continue;
    carrier_->divert(own);
    if (carrier_->writes(own)) kept_.push_back(std::move(kept));
    return erase(own);
  }
}

bool Hub::attached(Rank peer) const {
  const Guard locked = guard();
  return attached_[static_cast<std::size_t>(peer)];
}

void Hub::send(ContextId own, Rank peer, const Frame& frame, const std::byte* payload, const Block& block,
               bool more_follows) {
  const Context& context = *find(own);
  carrier_->send({context.here[static_cast<std::size_t>(peer)], own, context.numbers[static_cast<std::size_t>(peer)]},
                 frame, payload, block, more_follows);
}

bool Hub::pump(ContextId own, Rank peer) {
  current_ = own;
  const Rank here = find(own)->here[static_cast<std::size_t>(peer)];
  return attached_[static_cast<std::size_t>(here)] ? carrier_->pump(here) : progress_openings();
}

bool Hub::pump_all(ContextId own) {
  current_ = own;
  const bool comes = !openings_.empty() || !retries_.empty() || Clock::now() - listened_ >= listens_every();
  const bool moved = comes && progress_openings();
  return carrier_->pump_all() || moved;
}

void Hub::left(ContextId own, Rank peer) { carrier_->left(find(own)->here[static_cast<std::size_t>(peer)], own); }

bool Hub::prepare_sleep(ContextId own) {
  if (!carrier_->may_sleep()) return false;
  if (shared()) {
    find(own)->sleeps = true;
    ++sleepers_;
  }
  return true;
}

void Hub::sleep(ContextId own, std::chrono::milliseconds limit) {
  epoll_event events[64];
  const int n = epoll_wait(epoll_.get(), events, 64, static_cast<int>(limit.count()));
  const Guard locked = guard();
  current_ = own;
  if (Context& context = *find(own); context.sleeps) {
    context.sleeps = false;
    --sleepers_;
    std::uint64_t forgotten = 0;
    if (std::exchange(context.called, false) && --called_ == 0) (void)!read(wake_.get(), &forgotten, sizeof forgotten);
  }
  bool others = false;
  for (int i = 0; i < n; ++i) {
    void* const what = events[i].data.ptr;
    others |= what == nullptr;
    if (what != nullptr && what != &wake_) carrier_->woken(what);
  }
  if (others || !openings_.empty() || !guests_.empty() || !retries_.empty()) progress_openings();
}

void Hub::call(Context& context) {
  if (!context.sleeps || std::exchange(context.called, true)) return;
  const std::uint64_t one = 1;
  if (called_++ == 0) (void)!write(wake_.get(), &one, sizeof one);
}

std::byte* Hub::place(Rank peer, ContextId number, const Frame& frame) {
  if (!sink_) sink_ = blocks_.take();
  Context* const context = find(number);
  if (context == nullptr) return sink_.data();
  if (context->user == nullptr) {
    const auto own = [peer](const Early& e) { return e.peer == peer; };
    if (static_cast<std::size_t>(std::count_if(context->early.begin(), context->early.end(), own)) >=
        kMostEarly * static_cast<std::size_t>(carrier_->lanes()))
      return nullptr;
    return context->early.emplace_back(Early{peer, frame, blocks_.take(), false}).block.data();
  }
  if (!context->has(peer) || (shared() && context->user->broken())) return sink_.data();
  std::byte* const at = context->user->place(context->of(peer), frame);
  if (at != nullptr || !shared()) return at;
  call(*context);  // it has failed, and alone
  return sink_.data();
}

bool Hub::arrived(Rank peer, ContextId number, const Frame& frame, const std::byte* at) {
  if (number == kOfHub) {
    if (frame.kind == FrameKind::kGone) note_gone(peer, static_cast<ContextId>(frame.number));
    return false;
  }
  Context* const context = find(number);
  if (context == nullptr || (context->user != nullptr && !context->has(peer))) {
    answer_gone(peer, number, frame);
    return false;
  }
  if (take_early(*context, peer, frame, at)) return false;
  if (at != nullptr && at == sink_.data()) return false;
  if (frame.kind == FrameKind::kData && shared() && context->user->broken()) return false;
  if (frame.kind == FrameKind::kBye || frame.kind == FrameKind::kBroken)
    context->said_last[static_cast<std::size_t>(peer)] = true;
  const bool goes_on = context->user->arrived(context->of(peer), frame, at);
  call(*context);
  return goes_on && number == current_ && sleepers_ == 0;  // a sleeper gets what is left unread only later
}

// True: the frame is kept, or was and has been delivered.
bool Hub::take_early(Context& context, Rank peer, const Frame& frame, const std::byte* at) {
  if (context.user == nullptr && frame.kind != FrameKind::kData) {
    context.early.push_back({peer, frame, Block(), true});
    return true;
  }
  const auto kept = std::find_if(context.early.begin(), context.early.end(),
                                 [&](const Early& e) { return !e.complete && e.peer == peer && e.block.data() == at; });
  if (kept == context.early.end()) return false;
  kept->complete = true;
  if (context.user != nullptr) deliver_early(context);
  return true;
}

// A frame that is still coming in waits for its end; those of its peer that come after it do likewise.
void Hub::deliver_early(Context& context) {
  std::vector<Rank> waiting;
  for (std::deque<Early> all = std::exchange(context.early, {}); !all.empty(); all.pop_front()) {
    Early& e = all.front();
    if (!context.has(e.peer)) continue;
    if (!e.complete) waiting.push_back(e.peer);
    if (std::find(waiting.begin(), waiting.end(), e.peer) != waiting.end()) {
      context.early.push_back(std::move(e));
      continue;
    }
    std::byte* at = nullptr;
    if (e.frame.kind == FrameKind::kData) {
      at = context.user->place(context.of(e.peer), e.frame);
      if (at == nullptr) continue;
      std::memcpy(at, e.block.data(), e.frame.length);
    }
    if (e.frame.kind == FrameKind::kBye || e.frame.kind == FrameKind::kBroken)
      context.said_last[static_cast<std::size_t>(e.peer)] = true;
    context.user->arrived(context.of(e.peer), e.frame, at);
  }
}

void Hub::answer_gone(Rank peer, ContextId context, const Frame& frame) {
  using Kind = FrameKind;
  if (frame.kind != Kind::kData && frame.kind != Kind::kSignal && frame.kind != Kind::kQuery) return;
  carrier_->send({peer, kOfHub, kOfHub}, {.kind = Kind::kGone, .number = context}, nullptr, Block(), false);
}

void Hub::note_gone(Rank peer, ContextId theirs) {
  for (auto& [number, context] : contexts_) {
    if (!context.has(peer) || context.numbers[static_cast<std::size_t>(context.of(peer))] != theirs) continue;
    context.user->ended(context.of(peer), "it does not listen any more");
    return call(context);
  }
}

void Hub::damaged(Rank peer, const std::string& what) {
  each_with(peer, [&](User& user, Rank r) { user.damaged(r, what); });
}

void Hub::ended(Rank peer, const std::string& reason) {
  ends_[static_cast<std::size_t>(peer)] = reason;
  each_with(peer, [&](User& user, Rank r) { user.ended(r, reason); });
}

void Hub::forget(Rank peer, ContextId number, const Frame& frame) {
  Context* const context = find(number);
  if (context == nullptr) return;
  const auto same = [&](const Early& e) {
    return !e.complete && e.peer == peer && e.frame.strand == frame.strand && e.frame.number == frame.number &&
           e.frame.offset == frame.offset;
  };
  const bool early = std::erase_if(context->early, same) > 0;
  if (context->user == nullptr || !context->has(peer)) return;
  if (early) return deliver_early(*context);
  context->user->forget(context->of(peer), frame);
}

void Hub::log_lanes() const {
  if (!carrier_->outlives_lanes() || !log_->writes(LogLevel::kInfo, LogPart::kNet)) return;
  for (Rank r = 0; r < static_cast<Rank>(records_.size()); ++r)
    if (r != rank_ && started_[static_cast<std::size_t>(r)])
      log_->info(LogPart::kNet, "to rank {}: {}", r, carrier_->describe_lanes(r));
}

bool Hub::broken(ContextId number) const {
  const Context* const context = find(number);
  return context != nullptr && context->user != nullptr && context->user->broken();
}

bool Hub::expects(Rank peer) const {
  return std::any_of(contexts_.begin(), contexts_.end(), [peer](const auto& c) {
    return c.second.has(peer) && !c.second.said_last[static_cast<std::size_t>(peer)];
  });
}

}  // namespace weft::net::messages
