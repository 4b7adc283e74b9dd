#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "net/bootstrap/handshake.h"
#include "net/bootstrap/seal.h"
#include "net/bootstrap/socket.h"
#include "onesided/pgas/space.h"

namespace weft::net::rma {

// Serves other ranks' requests on this rank's memory, in a thread of its own: a peer needs no help of the program.
// The thread never blocks on one connection.
class Server {
 public:
  // Listens at this address, at one of `ports`. A link that is cut ends its connection after about `cut`. Errors: see
  // bootstrap::listen_on.
  static Result<std::unique_ptr<Server>> open(const bootstrap::Address& at, const bootstrap::Key& key,
                                              const bootstrap::Sealing& sealing, Rank ranks,
                                              bootstrap::Ports ports = {},
                                              std::chrono::milliseconds cut = std::chrono::seconds(30));
  ~Server();

  bootstrap::Address address() const { return bootstrap::local_address(listener_.get()); }
  // Executes requests from here on; until then nobody is answered. `space` must outlive the server.
  void serve(const pgas::Space& space);
  // Has this rank's connection been closed?
  bool has_left(Rank rank) const { return left_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }

 private:
  class Connection;
  Server(bootstrap::UniqueFd listener, const bootstrap::Key& key, const bootstrap::Sealing& sealing, Rank ranks,
         std::chrono::milliseconds cut);
  void run();

  bootstrap::UniqueFd listener_;
  bootstrap::Key key_;
  bootstrap::Sealing sealing_;
  const std::chrono::milliseconds cut_;
  std::vector<std::atomic<bool>> left_;
  const pgas::Space* space_ = nullptr;  // constant while the thread runs
  bootstrap::UniqueFd stop_;            // an eventfd: readable when the thread shall end
  std::thread thread_;
};

}  // namespace weft::net::rma
