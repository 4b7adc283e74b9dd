#include "move/transfer/server.h"

namespace weft::transfer {
namespace {

namespace link = net::link;

constexpr std::size_t kMostInbox = 4096;  // notifications that nobody has taken; then their senders wait

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const link::Address& at, const link::Key& key, const Regions& regions,
                                             const Segment& segment, std::shared_ptr<net::ucx::Context> ucx) {
  WEFT_TRY(auto listener, link::listen_on(at));
  std::unique_ptr<Server> server(new Server(key, regions, segment, std::move(ucx)));
  server->address_ = link::local_address(listener.get());
  server->loop_.listen(std::move(listener));
  server->loop_.start();
  return server;
}

Server::Server(const link::Key& key, const Regions& regions, const Segment& segment,
               std::shared_ptr<net::ucx::Context> ucx)
    : served_{regions, segment,
              [this](const std::string& peer, std::string bytes) { return deliver(peer, std::move(bytes)); },
              std::move(ucx)},
      loop_({.key = key,
             .welcomes = [](const link::Claim& claim) { return claim.purpose == kPurpose; },
             .serve = [this](UniqueFd fd, const link::Handshake*) -> std::unique_ptr<link::Connection> {
               return std::make_unique<Connection>(std::move(fd), served_);
             },
             .most_connections = 256,
             .cut = std::chrono::seconds(10),
             // Waking two threads took 30 to 40 us (bench/results/2026-11-26-transfers-ucx.md).
             .look_for = std::chrono::microseconds(100)}) {}

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

}  // namespace weft::transfer
