#include "onesided/rma/server.h"

#include "onesided/rma/connection.h"

namespace weft::net::rma {

Result<std::unique_ptr<Server>> Server::open(const link::Address& at, const link::Key& key,
                                             const link::Sealing& sealing, Rank ranks, link::Ports ports,
                                             std::chrono::milliseconds cut) {
  link::Address any = at;
  any.port = 0;
  WEFT_TRY(auto listener, link::listen_on(any, ports));
  std::unique_ptr<Server> server(new Server(key, sealing, ranks, cut));
  server->address_ = link::local_address(listener.get());
  server->loop_.listen(std::move(listener));
  return server;
}

Server::Server(const link::Key& key, const link::Sealing& sealing, Rank ranks, std::chrono::milliseconds cut)
    : sealing_(sealing),
      left_(static_cast<std::size_t>(ranks)),
      loop_({.key = key,
             .welcomes = [this](const link::Claim& claim) { return welcomes(claim); },
             .serve = [this](UniqueFd fd, const link::Handshake* greeting) -> std::unique_ptr<link::Connection> {
               auto& left = left_[static_cast<std::size_t>(greeting->claim().from)];
               return std::make_unique<Connection>(std::move(fd), *greeting, sealing_, *space_, left);
             },
             .cut = cut}) {}

bool Server::welcomes(const link::Claim& claim) const {
  return claim.purpose == link::kOneSided && claim.to == space_->rank() && claim.from >= 0 &&
         static_cast<std::size_t>(claim.from) < left_.size();
}

void Server::serve(const pgas::Space& space) {
  space_ = &space;
  loop_.start();
}

}  // namespace weft::net::rma
