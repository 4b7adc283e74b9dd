#include "net/link/loop.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace weft::net::link {
namespace {

using namespace std::chrono_literals;

constexpr auto kSilentTime = 50ms;   // then a stranger may have to make place
constexpr auto kLookOften = 10ms;    // where there is none, or no descriptor is left …
constexpr auto kLookEvery = 1000ms;  // … else, at strangers whose time is over

}  // namespace

bool Reserve::spend() {
  if (!fd_.open()) return false;
  fd_.reset();
  return true;
}

void Reserve::refill() {
  if (!fd_.open()) fd_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

Loop::Loop(LoopOptions options) : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Loop::start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Loop::stop() {
  if (!thread_.joinable()) return;
  stopped_ = true;
  wake();
  thread_.join();
  guests_.clear();
}

void Loop::wake() const {
  const std::uint64_t one = 1;
  while (write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Loop::listen(UniqueFd listener) {
  {
    const MutexLock guard(mutex_);
    fresh_.push_back(std::move(listener));
  }
  wake();
}

void Loop::add_listeners() {
  std::uint64_t count;
  (void)!read(wake_.get(), &count, sizeof count);
  const MutexLock guard(mutex_);
  for (UniqueFd& fd : fresh_) listeners_.push_back(std::move(fd));
  fresh_.clear();
}

// Drops those who have had their time, and at the limit the stranger who came first.
void Loop::make_place(Clock::time_point now) {
  strangers_ = 0;
  std::int64_t count = 0;
  std::erase_if(guests_, [&](const Guest& g) {
    const bool known = g.connection != nullptr && g.connection->known();
    if (!open(g) || (!known && now - g.since > options_.stranger_time)) return true;
    count += known ? 1 : 0;
    strangers_ += stranger(g) ? 1 : 0;
    return false;
  });
  known_ = count;
  if (strangers_ < options_.most_strangers) return;
  const auto first = std::find_if(guests_.begin(), guests_.end(), [this](const Guest& g) { return stranger(g); });
  if (now - first->since <= kSilentTime) return;
  guests_.erase(first);
  --strangers_;
}

// Makes the list of descriptors. Returns when there is something to do at the latest.
Loop::Clock::time_point Loop::watch(bool accepts) {
  watched_.assign(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
  for (const UniqueFd& l : listeners_)
    watched_.push_back({.fd = l.get(), .events = static_cast<short>(accepts ? POLLIN : 0), .revents = 0});
  auto next = Clock::time_point::max();
  for (Guest& g : guests_) {
    g.begin = watched_.size();
    g.at_once = false;
    if (g.connection != nullptr) {
      g.at_once = !g.connection->watch(watched_);
      next = std::min(next, g.at_once ? Clock::time_point() : g.connection->due());
    } else {
      watched_.push_back({.fd = g.fd.get(), .events = POLLIN, .revents = 0});
    }
    g.end = watched_.size();
  }
  return next;
}

void Loop::run() {
  while (!stopped_) {
    try {
      if (!look()) return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kLookOften);  // others may give memory back
    }
  }
}

// Waits once, and serves what is ready. False: poll() does not work any more.
bool Loop::look() {
  auto now = Clock::now();
  make_place(now);
  const bool full = strangers_ >= options_.most_strangers || guests_.size() >= options_.most_connections;
  const bool accepts = !full && !std::exchange(exhausted_, false);
  const auto next = watch(accepts);
  const bool looks = now - had_ < options_.look_for;
  const bool idle = guests_.empty() && wake_.open();
  const auto longest = !accepts ? kLookOften : idle ? std::chrono::milliseconds(-1) : kLookEvery;
  auto wait = looks ? 0ms : longest;
  if (next != Clock::time_point::max() && wait.count() != 0)
    wait = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(next - now), 0ms, longest);
  const int ready = poll(watched_.data(), watched_.size(), static_cast<int>(wait.count()));
  if (ready < 0 && errno != EINTR) return false;
  if (stopped_) return true;
  if (looks && ready == 0) std::this_thread::yield();
  now = Clock::now();
  for (Guest& g : guests_) {
    try {
      advance(g, now);
    } catch (const std::bad_alloc&) {
      close(g);
    }
  }
  for (std::size_t l = 0; l < listeners_.size(); ++l)
    if (watched_[1 + l].revents != 0) accept(listeners_[l].get());
  if (watched_[0].revents != 0 || !wake_.open()) add_listeners();
  reserve_.refill();
  return true;
}

// Closes a connection whose work threw std::bad_alloc: nobody knows how far it has come.
void Loop::close(Guest& g) {
  g.connection.reset();
  g.handshake.reset();
  g.fd.reset();
}

void Loop::advance(Guest& g, Clock::time_point now) {
  bool due = false;
  for (std::size_t at = g.begin; at < g.end; ++at) due = due || watched_[at].revents != 0;
  const bool came = due || g.at_once;
  due = came || (g.connection != nullptr && g.connection->due() <= now);
  if (!due) return;
  if (g.connection == nullptr) greet(g);
  if (g.connection == nullptr) return;
  g.connection->advance();
  if (came && g.connection->known()) had_ = now;
}

void Loop::greet(Guest& g) const {
  using State = Handshake::State;
  State state = g.handshake->advance(g.fd.get());
  if (g.handshake->proved() && state == State::kRunning) {
    if (options_.welcomes(g.handshake->claim()))
      g.handshake->accept();
    else
      g.handshake->refuse(kRefusedRanks);
    state = g.handshake->advance(g.fd.get());
  }
  if (state == State::kFailed) g.fd.reset();
  if (state == State::kDone) g.connection = options_.serve(std::move(g.fd), &*g.handshake);
  if (state == State::kDone) g.handshake.reset();
}

void Loop::accept(int listener) {
  auto fd = accept_from(listener);
  if (!fd && reserve_.spend()) fd = accept_from(listener);
  exhausted_ = exhausted_ || !fd;
  if (!fd || !fd->open()) return;
  if (options_.cut.count() > 0) end_when_cut(fd->get(), options_.cut);
  Guest& g = guests_.emplace_back();
  g.fd = std::move(*fd);
  try {
    begin(g);
  } catch (const std::bad_alloc&) {
    close(g);
  }
}

void Loop::begin(Guest& g) const {
  if (options_.welcomes != nullptr)
    g.handshake.emplace(Handshake::Role::kAcceptor, options_.key);
  else
    g.connection = options_.serve(std::move(g.fd), nullptr);
  if (g.connection != nullptr)
    g.connection->advance();
  else
    greet(g);
}

}  // namespace weft::net::link
