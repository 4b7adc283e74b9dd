#include "onesided/rma/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "onesided/rma/connection.h"

namespace weft::net::rma {
namespace {

constexpr int kLookEvery = 1000;           // milliseconds, for strangers who say nothing …
constexpr int kLookOftenEvery = 10;        // … and when there are too many of them, or no descriptor is left
constexpr std::ptrdiff_t kStrangers = 64;  // more wait in the listener's queue
constexpr std::chrono::milliseconds kSilentTime{50};  // then a stranger may have to make place

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const bootstrap::Address& at, const bootstrap::Key& key,
                                             const bootstrap::Sealing& sealing, Rank ranks, bootstrap::Ports ports,
                                             std::chrono::milliseconds cut) {
  bootstrap::Address any = at;
  any.port = 0;
  WEFT_TRY(auto listener, bootstrap::listen_on(any, ports));
  return std::unique_ptr<Server>(new Server(std::move(listener), key, sealing, ranks, cut));
}

Server::Server(bootstrap::UniqueFd listener, const bootstrap::Key& key, const bootstrap::Sealing& sealing, Rank ranks,
               std::chrono::milliseconds cut)
    : listener_(std::move(listener)),
      key_(key),
      sealing_(sealing),
      cut_(cut),
      left_(static_cast<std::size_t>(ranks)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Server::~Server() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void Server::serve(const pgas::Space& space) {
  space_ = &space;
  thread_ = std::thread([this] { run(); });
}

void Server::run() {
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<pollfd> watched;
  bool short_of_descriptors = false;
  std::chrono::steady_clock::time_point looked{};
  for (;;) {
    const auto stranger = [](const auto& c) { return c->is_stranger(); };
    if (std::count_if(connections.begin(), connections.end(), stranger) >= kStrangers) {
      const auto oldest = std::find_if(connections.begin(), connections.end(), stranger);  // they are in order
      if (std::chrono::steady_clock::now() - (*oldest)->since() > kSilentTime) connections.erase(oldest);
    }
    const bool full = std::count_if(connections.begin(), connections.end(), stranger) >= kStrangers;
    const bool accepts = !full && !std::exchange(short_of_descriptors, false);
    watched = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
               {.fd = listener_.get(), .events = static_cast<short>(accepts ? POLLIN : 0), .revents = 0}};
    for (const auto& c : connections)
      watched.push_back({.fd = c->fd(), .events = static_cast<short>(c->sends() ? POLLOUT : POLLIN), .revents = 0});
    if (poll(watched.data(), watched.size(), accepts ? kLookEvery : kLookOftenEvery) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    // Strangers who say nothing are looked at for their time only: each look is a system call that peers wait for.
    const auto now = std::chrono::steady_clock::now();
    const bool looks = now - looked > std::chrono::milliseconds(kLookOftenEvery);
    if (looks) looked = now;
    for (std::size_t i = 0; i < connections.size(); ++i)
      if (watched[i + 2].revents != 0 || (looks && connections[i]->is_stranger())) connections[i]->advance();
    std::erase_if(connections, [this](const auto& c) {
      if (c->open()) return false;
      if (c->peer() >= 0) left_[static_cast<std::size_t>(c->peer())].store(true, std::memory_order_release);
      return true;
    });
    if (watched[1].revents == 0) continue;
    auto fd = bootstrap::accept_from(listener_.get());
    short_of_descriptors = !fd;
    if (!fd || !fd->open()) continue;
    bootstrap::end_when_cut(fd->get(), cut_);
    connections.push_back(
        std::make_unique<Connection>(std::move(*fd), key_, sealing_, *space_, static_cast<Rank>(left_.size())));
  }
}

}  // namespace weft::net::rma
