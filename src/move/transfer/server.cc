#include "move/transfer/server.h"

namespace weft::transfer {

namespace link = net::link;

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
    : served_{regions, segment, inbox_, std::move(ucx)},
      loop_({.key = key,
             .welcomes = [](const link::Claim& claim) { return claim.purpose == kPurpose; },
             .serve = [this](UniqueFd fd, const link::Handshake*) -> std::unique_ptr<link::Connection> {
               return std::make_unique<Connection>(std::move(fd), served_);
             },
             .most_connections = 256,
             .cut = std::chrono::seconds(10),
             // Waking two threads took 30 to 40 us (bench/results/2026-11-26-transfers-ucx.md).
             .look_for = std::chrono::microseconds(100)}) {}

}  // namespace weft::transfer
