#include "move/transfer/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "move/transfer/connection.h"

namespace weft::transfer {
namespace {

namespace bootstrap = net::bootstrap;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostInbox = 4096;  // notifications that nobody has taken; then their senders wait
constexpr std::size_t kMostConnections = 256;
constexpr std::ptrdiff_t kMostStrangers = 64;         // more wait in the listener's queue
constexpr std::chrono::milliseconds kSilentTime{50};  // then a stranger may have to make place
constexpr std::chrono::milliseconds kLookEvery{10};
constexpr std::chrono::seconds kCut{10};  // a peer whose link is cut has ended after about this
// The server looks for the next question without sleep for so long after one: waking two threads took 30 to 40 us
// (bench/results/2026-11-26-transfers-ucx.md). It yields to other threads of its core.
constexpr std::chrono::microseconds kLookFor{100};

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const bootstrap::Address& at, const bootstrap::Key& key,
                                             const Regions& regions, const Segment& segment,
                                             std::shared_ptr<net::ucx::Context> ucx) {
  WEFT_TRY(auto listener, bootstrap::listen_on(at));
  return std::unique_ptr<Server>(new Server(std::move(listener), key, regions, segment, std::move(ucx)));
}

Server::Server(bootstrap::UniqueFd listener, const bootstrap::Key& key, const Regions& regions, const Segment& segment,
               std::shared_ptr<net::ucx::Context> ucx)
    : listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      key_(key),
      regions_(regions),
      segment_(segment),
      ucx_(std::move(ucx)),
      thread_([this] { run(); }) {}

Server::~Server() {
  const std::uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

bool Server::deliver(const std::string& peer, std::string bytes) {
  const std::lock_guard guard(mutex_);
  if (inbox_.size() >= kMostInbox) return false;
  inbox_.push_back({peer, std::move(bytes)});
  return true;
}

std::vector<Notification> Server::take_notifications() {
  const std::lock_guard guard(mutex_);
  return std::exchange(inbox_, {});
}

void Server::run() {
  const Served served{key_, regions_, segment_,
                      [this](const std::string& peer, std::string bytes) { return deliver(peer, std::move(bytes)); },
                      ucx_};
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<pollfd> watched;
  struct Part {
    std::size_t begin = 0, end = 0;  // of `watched`
    bool busy = false;
  };
  std::vector<Part> parts;  // by connection
  Clock::time_point looked{}, asked{};
  for (;;) {
    const auto greets = [](const auto& c) { return c->greets(); };
    if (std::count_if(connections.begin(), connections.end(), greets) >= kMostStrangers) {
      const auto oldest = std::find_if(connections.begin(), connections.end(), greets);  // they are in order
      if (Clock::now() - (*oldest)->since() > kSilentTime) connections.erase(oldest);
    }
    const bool crowded = std::count_if(connections.begin(), connections.end(), greets) >= kMostStrangers;
    const bool accepts = !crowded && connections.size() < kMostConnections;
    watched = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
               {.fd = listener_.get(), .events = static_cast<short>(accepts ? POLLIN : 0), .revents = 0}};
    bool blocked = false, busy = false;
    parts.clear();
    for (const auto& c : connections) {
      Part& part = parts.emplace_back();
      part.begin = watched.size();
      part.busy = !c->watch(watched);
      part.end = watched.size();
      busy = busy || (part.busy && !c->blocked());
      blocked = blocked || c->blocked();
    }
    const bool awake = Clock::now() - asked < kLookFor;
    const int wait_ms = busy || awake ? 0 : blocked ? 1 : crowded ? 10 : 200;
    const int ready = poll(watched.data(), watched.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return;
    if (awake && ready == 0) std::this_thread::yield();
    if (watched[0].revents != 0) return;
    // Strangers who say nothing are looked at for their time only: each look is a system call that peers wait for.
    const auto now = Clock::now();
    const bool looks = now - looked > kLookEvery;
    if (looks) looked = now;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      const auto& [begin, end, at_once] = parts[i];
      bool due = at_once || (looks && connections[i]->stranger()) || connections[i]->blocked();
      for (std::size_t at = begin; at < end; ++at) due = due || watched[at].revents != 0;
      if (!due) continue;
      connections[i]->advance();
      if (!connections[i]->stranger() && !connections[i]->blocked()) asked = now;
    }
    std::erase_if(connections, [](const auto& c) { return !c->open(); });
    if (watched[1].revents == 0) continue;
    auto fd = bootstrap::accept_from(listener_.get());
    if (fd && fd->open()) bootstrap::end_when_cut(fd->get(), kCut);
    if (fd && fd->open()) connections.push_back(std::make_unique<Connection>(std::move(*fd), served));
    if (!fd) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // no descriptor is left
  }
}

}  // namespace weft::transfer
