#include "transfer/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transfer/connection.h"

namespace weft::transfer {
namespace {

namespace bootstrap = net::bootstrap;

constexpr std::size_t kMostInbox = 4096;  // notifications that nobody has taken; then their senders wait
constexpr std::size_t kMostConnections = 256;

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const bootstrap::Address& at, const bootstrap::Key& key,
                                             const Regions& regions, const Segment& segment) {
  WEFT_TRY(auto listener, bootstrap::listen_on(at));
  return std::unique_ptr<Server>(new Server(std::move(listener), key, regions, segment));
}

Server::Server(bootstrap::UniqueFd listener, const bootstrap::Key& key, const Regions& regions, const Segment& segment)
    : listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      key_(key),
      regions_(regions),
      segment_(segment),
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
                      [this](const std::string& peer, std::string bytes) { return deliver(peer, std::move(bytes)); }};
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<pollfd> watched;
  for (;;) {
    const bool accepts = connections.size() < kMostConnections;
    watched = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
               {.fd = listener_.get(), .events = static_cast<short>(accepts ? POLLIN : 0), .revents = 0}};
    bool blocked = false;
    for (const auto& c : connections) {
      watched.push_back({.fd = c->fd(), .events = c->events(), .revents = 0});
      blocked = blocked || c->blocked();
    }
    if (poll(watched.data(), watched.size(), blocked ? 1 : 200) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    for (std::size_t i = 0; i < connections.size(); ++i)
      if (watched[i + 2].revents != 0 || connections[i]->stranger() || connections[i]->blocked())
        connections[i]->advance();
    std::erase_if(connections, [](const auto& c) { return !c->open(); });
    if (watched[1].revents == 0) continue;
    auto fd = bootstrap::accept_from(listener_.get());
    if (fd && fd->open()) connections.push_back(std::make_unique<Connection>(std::move(*fd), served));
    if (!fd) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // no descriptor is left
  }
}

}  // namespace weft::transfer
