#include "move/kv/session.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>

namespace weft::kv {
namespace {

namespace bootstrap = net::bootstrap;

constexpr std::size_t kMostWaiting = 1 << 20;  // bytes of answers; then no question is read
constexpr std::size_t kMostHeld = 4096;        // leases and writings of one client
constexpr int kMostAtOnce = 16;                // questions; then other clients have their turn
constexpr std::chrono::seconds kGreeting{5};

}  // namespace

Session::Session(bootstrap::UniqueFd fd, const Serving& serving, bool greeted) : fd_(std::move(fd)), serving_(serving) {
  if (!greeted) handshake_.emplace(bootstrap::Handshake::Role::kAcceptor, serving.key);
  next_deadline_ = since_ + kGreeting;
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Session::~Session() {
  for (const auto& [id, held] : held_) give_back(id, held);
}

void Session::give_back(std::uint64_t id, const Held& held) {
  if (held.writes)
    serving_.store->abandon(id);
  else
    serving_.store->end(id);
}

short Session::events() const {
  return static_cast<short>((out_.waiting() < kMostWaiting ? POLLIN : 0) | (out_.waiting() > 0 ? POLLOUT : 0));
}

void Session::advance() {
  if (handshake_) greet();
  if (!open() || handshake_) return;
  send_answers();
  for (int turn = 0; turn < kMostAtOnce && open() && out_.waiting() < kMostWaiting && receive(); ++turn) answer();
  if (open()) send_answers();
}

void Session::greet() {
  using State = bootstrap::Handshake::State;
  State state = handshake_->advance(fd());
  if (handshake_->proved() && state == State::kRunning) {
    if (handshake_->claim().purpose == kStorePurpose)
      handshake_->accept();
    else
      handshake_->refuse(bootstrap::kRefusedRanks);
    state = handshake_->advance(fd());
  }
  if (state == State::kDone) handshake_.reset();
  if (state == State::kFailed) fd_.reset();
}

// One whole question with its keys. False: not yet, or never.
bool Session::receive() {
  for (;;) {
    const std::size_t wanted = have_question_ ? keys_.size() * sizeof(BlockKey) : sizeof question_;
    std::byte* const into =
        reinterpret_cast<std::byte*>(have_question_ ? static_cast<void*>(keys_.data()) : &question_);
    while (got_ < wanted) {
      const ssize_t n = recv(fd(), into + got_, wanted - got_, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      if (n <= 0) return fd_.reset(), false;
      got_ += static_cast<std::size_t>(n);
    }
    got_ = 0;
    if (have_question_) return have_question_ = false, true;
    if (!valid(question_, known_)) return fd_.reset(), false;
    have_question_ = true;
    keys_.resize(question_.count);
  }
}

Session::Clock::time_point Session::deadline() const {
  return Clock::now() + std::min(std::chrono::milliseconds(question_.milliseconds), serving_.most_lease);
}

void Session::reply(Answer answer, std::span<const transfer::Page> pages, std::string_view text) {
  answer.pages = static_cast<std::uint32_t>(pages.size());
  answer.text = static_cast<std::uint32_t>(text.size());
  out_.put(answer);
  for (const transfer::Page& page : pages) out_.put(WirePage{.index = page.index, .generation = page.generation});
  if (!text.empty()) std::memcpy(out_.grow(text.size()), text.data(), text.size());
}

void Session::answer() {
  switch (question_.ask) {
    case Ask::kHello:
      return hello();
    case Ask::kMatch:
    case Ask::kBegin:
      return hold();
    case Ask::kEnd:
    case Ask::kCommit:
    case Ask::kAbandon:
      return close(question_.id);
    case Ask::kExtend: {
      const auto found = held_.find(question_.id);
      if (found == held_.end()) return close(question_.id);
      found->second.deadline = deadline();
      next_deadline_ = std::min(next_deadline_, found->second.deadline);
      return reply({});
    }
    case Ask::kCounters: {
      const Counters counters = serving_.store->counters();
      return reply({}, {}, {reinterpret_cast<const char*>(&counters), sizeof counters});
    }
  }
}

void Session::hello() {
  const detail::StoreState& store = *serving_.store;
  if (question_.milliseconds != kStoreVersion)
    return reply(
        {.verdict = Verdict::kNotFound}, {},
        fmt::format("it answers version {} of these questions, not {}", kStoreVersion, question_.milliseconds));
  const auto metadata = store.metadata();
  if (!metadata) return reply({.verdict = Verdict::kClosed}, {}, metadata.error().message);
  const Description description{.region = store.region.region,
                                .pages = store.pages,
                                .page_bytes = store.page_bytes,
                                .block_tokens = store.block_tokens};
  std::string text(reinterpret_cast<const char*>(&description), sizeof description);
  known_ = true;
  reply({}, {}, text + *metadata);
}

void Session::hold() {
  if (held_.size() >= kMostHeld)
    return reply({.verdict = Verdict::kNoResources}, {},
                 fmt::format("this client holds {} leases and writings", kMostHeld));
  const bool writes = question_.ask == Ask::kBegin;
  auto held = writes ? serving_.store->begin(keys_) : Result<detail::StoreState::Held>(serving_.store->match(keys_));
  if (!held) {
    const bool closed = held.error().code == Code::kPeerLeft;
    return reply({.verdict = closed ? Verdict::kClosed : Verdict::kNoResources}, {}, held.error().message);
  }
  if (!writes && question_.milliseconds == 0) {  // it relies on the pages' generations
    serving_.store->end(held->id);
    held->id = 0;
  }
  if (held->id != 0) {
    held_[held->id] = {deadline(), writes};
    next_deadline_ = std::min(next_deadline_, held_[held->id].deadline);
  }
  reply({.id = held->id, .number = held->first_block}, held->pages);
}

// Ends a lease or a writing of this client in the way that was asked for.
void Session::close(std::uint64_t id) {
  const auto found = held_.find(id);
  const bool writes = question_.ask != Ask::kEnd;
  if (found == held_.end() || found->second.writes != writes)
    return reply({.verdict = Verdict::kNotFound}, {}, "it has ended, or its deadline has passed");
  const Held held = found->second;
  held_.erase(found);
  if (question_.ask != Ask::kCommit) {
    give_back(id, held);
    return reply({});
  }
  const auto committed = serving_.store->commit_written(id);
  if (committed) return reply({.number = *committed});
  const Code code = committed.error().code;
  reply({.verdict = code == Code::kMismatch   ? Verdict::kUnwritten
                    : code == Code::kPeerLeft ? Verdict::kClosed
                                              : Verdict::kNotFound},
        {}, committed.error().message);
}

void Session::expire(Clock::time_point now) {
  if (now < next_deadline_) return;
  if (stranger() && now - since_ >= kGreeting) return fd_.reset();
  next_deadline_ = stranger() ? since_ + kGreeting : Clock::time_point::max();
  std::erase_if(held_, [&](const auto& entry) {
    const auto& [id, held] = entry;
    if (held.deadline > now) {
      next_deadline_ = std::min(next_deadline_, held.deadline);
      return false;
    }
    give_back(id, held);
    serving_.store->count_expired();
    return true;
  });
}

void Session::send_answers() {
  while (out_.waiting() > 0) {
    const ssize_t n = send(fd(), out_.data(), out_.waiting(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return fd_.reset();
    out_.take(static_cast<std::size_t>(n));
  }
}

}  // namespace weft::kv
