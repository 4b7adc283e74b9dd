#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

#include "base/env.h"
#include "move/kv/line.h"
#include "move/kv/session.h"

namespace weft::kv {
namespace {

namespace bootstrap = net::bootstrap;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kMostClients = 256;
constexpr std::ptrdiff_t kMostStrangers = 64;  // more wait in the listener's queue
constexpr auto kSilentTime = 50ms;             // then a stranger may have to make place
constexpr auto kLookEvery = 200ms;             // at the latest, at deadlines and at strangers
// The server looks for the next question without sleep for so long after one: a client that moves a block between two
// questions is back by then, and waking both threads took 80 us (bench/results/2026-11-26-transfers-kv-redis.md). It
// yields to other threads of its core.
constexpr auto kLookFor = 500us;
constexpr auto kCut = 10s;  // a client whose link is cut has ended after about this

// "host:port"; port 0: any that is free.
Result<bootstrap::Address> address_of_listener(const std::string& text) {
  if (!text.ends_with(":0")) return bootstrap::parse_address("listen", text);
  std::string host = text.substr(0, text.size() - 2);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return bootstrap::resolve("listen", host, 0);
}

}  // namespace

struct detail::ServerState {
  ~ServerState() {
    const std::uint64_t one = 1;
    while (write(stop.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    if (thread.joinable()) thread.join();
  }
  void run();
  void accept(std::vector<std::unique_ptr<Session>>& sessions) const;

  Serving serving;
  bootstrap::UniqueFd listener, stop;
  std::atomic<std::int64_t> clients{0};
  std::thread thread;
};

void detail::ServerState::accept(std::vector<std::unique_ptr<Session>>& sessions) const {
  auto fd = bootstrap::accept_from(listener.get());
  if (!fd) return std::this_thread::sleep_for(10ms);  // no descriptor is left
  if (!fd->open()) return;
  bootstrap::end_when_cut(fd->get(), kCut);
  sessions.push_back(std::make_unique<Session>(std::move(*fd), serving));
}

void detail::ServerState::run() {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<pollfd> watched;
  Clock::time_point asked{};
  const auto stranger = [](const auto& session) { return session->stranger(); };
  for (;;) {
    const auto strangers = std::count_if(sessions.begin(), sessions.end(), stranger);
    if (strangers >= kMostStrangers) {
      const auto oldest = std::find_if(sessions.begin(), sessions.end(), stranger);  // they are in order
      if (Clock::now() - (*oldest)->since() > kSilentTime) sessions.erase(oldest);
    }
    clients.store(static_cast<std::int64_t>(sessions.size()) - strangers);
    const bool crowded = std::count_if(sessions.begin(), sessions.end(), stranger) >= kMostStrangers;
    const bool accepts = !crowded && sessions.size() < kMostClients;
    watched = {{.fd = stop.get(), .events = POLLIN, .revents = 0},
               {.fd = listener.get(), .events = static_cast<short>(accepts ? POLLIN : 0), .revents = 0}};
    auto next = Clock::now() + (crowded ? kSilentTime : kLookEvery);
    for (const auto& session : sessions) {
      watched.push_back({.fd = session->fd(), .events = session->events(), .revents = 0});
      next = std::min(next, session->next_deadline());
    }
    const auto begin = Clock::now();
    const bool looks = begin - asked < kLookFor;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - begin);
    const int wait_ms = looks ? 0 : static_cast<int>(std::max<std::int64_t>(wait.count(), 0));
    const int ready = poll(watched.data(), watched.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    const auto now = Clock::now();
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      sessions[i]->expire(now);  // before questions: a lease is over when its deadline has passed
      if (watched[i + 2].revents == 0 || !sessions[i]->open()) continue;
      sessions[i]->advance();
      asked = now;
    }
    if (looks && ready == 0) std::this_thread::yield();
    std::erase_if(sessions, [](const auto& session) { return !session->open(); });
    if (watched[1].revents != 0) accept(sessions);
  }
}

Status check_not_secure() {
  WEFT_TRY(const env::Settings settings, env::read());
  if (settings.secure.empty()) return {};
  return bad_input("WEFT_SECURE={}: a store's server and its clients talk in the clear; unset it", settings.secure);
}

Result<Server> Server::open(Store& store, const ServerOptions& options) {
  WEFT_TRY(const auto at, address_of_listener(options.listen));
  WEFT_CHECK(check_not_secure());
  WEFT_CHECK(check_key(options.key));
  if (options.key.empty() && !at.loopback())
    return bad_input("listen {}: a store without a key serves the loopback only", options.listen);
  if (options.most_lease < 1ms || options.most_lease > 24h)
    return bad_input("leases of at most {} ms; 1 ms to a day", options.most_lease.count());
  if (store.state_ == nullptr) return detail::no_store();
  auto state = std::make_unique<detail::ServerState>();
  state->serving = {store.state_, connection_key(options.key), options.most_lease};
  WEFT_TRY(state->listener, bootstrap::listen_on(at));
  state->stop = bootstrap::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->stop.open()) return failure(Code::kNoResources, Blame::kProcess, "eventfd: {}", std::strerror(errno));
  state->thread = std::thread([s = state.get()] { s->run(); });
  return Server(std::move(state));
}

Server::Server(std::unique_ptr<detail::ServerState> state) : state_(std::move(state)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;
std::string Server::address() const {
  return state_ ? bootstrap::local_address(state_->listener.get()).text() : std::string();
}
std::int64_t Server::clients() const { return state_ ? state_->clients.load() : 0; }

}  // namespace weft::kv
