#include "base/env.h"
#include "base/forks.h"
#include "move/kv/line.h"
#include "move/kv/session.h"

namespace weft::kv {
namespace {

namespace link = net::link;
using namespace std::chrono_literals;

}  // namespace

struct detail::ServerState {
  const Owner owner;
  ServerState(const Serving& with, const link::Key& key)
      : serving(with),
        loop({.key = key,
              .welcomes = [](const link::Claim& claim) { return claim.purpose == kStorePurpose; },
              .serve = [this](UniqueFd fd, const link::Handshake*) -> std::unique_ptr<link::Connection> {
                return std::make_unique<Session>(std::move(fd), serving);
              },
              .most_connections = 256,
              .cut = 10s,
              // A client that moves a block between two questions is back by then, and waking both threads took 80 us
              // (bench/results/2026-11-26-transfers-kv-redis.md).
              .look_for = 500us}) {}

  const Serving serving;
  link::Address address;
  link::Loop loop;
};

Status check_not_secure() {
  WEFT_TRY(const env::Settings settings, env::read());
  if (settings.secure.empty()) return {};
  return bad_input("WEFT_SECURE={}: a store's server and its clients talk in the clear; unset it", settings.secure);
}

Result<Server> Server::open(Store& store, const ServerOptions& options) {
  WEFT_TRY(const auto at, link::parse_listener("listen", options.listen));
  WEFT_CHECK(check_not_secure());
  WEFT_CHECK(check_key(options.key));
  if (options.key.empty() && !at.loopback())
    return bad_input("listen {}: a store without a key serves the loopback only", options.listen);
  if (options.most_lease < 1ms || options.most_lease > 24h)
    return bad_input("leases of at most {} ms; 1 ms to a day", options.most_lease.count());
  WEFT_CHECK(detail::usable(store.state_, "store"));
  WEFT_TRY(auto listener, link::listen_on(at));
  auto state =
      std::make_unique<detail::ServerState>(Serving{store.state_, options.most_lease}, connection_key(options.key));
  state->address = link::local_address(listener.get());
  state->loop.listen(std::move(listener));
  state->loop.start();
  return Server(std::move(state));
}

Server::Server(std::unique_ptr<detail::ServerState> state) : state_(std::move(state)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() {
  if (state_ != nullptr && state_->owner.inherited()) leave(state_);
}
std::string Server::address() const { return state_ ? state_->address.text() : std::string(); }
std::int64_t Server::clients() const { return state_ ? state_->loop.known() : 0; }

}  // namespace weft::kv
