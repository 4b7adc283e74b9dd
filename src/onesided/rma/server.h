#pragma once

#include <atomic>
#include <vector>

#include "net/link/loop.h"
#include "net/link/seal.h"
#include "onesided/pgas/space.h"

namespace weft::net::rma {

// Serves other ranks' requests on this rank's memory, in a thread of its own: a peer needs no help of the program.
// The thread never blocks on one connection.
class Server {
 public:
  // Listens at this address, at one of `ports`. A link that is cut ends its connection after about `cut`. Errors: see
  // link::listen_on.
  static Result<std::unique_ptr<Server>> open(const link::Address& at, const link::Key& key,
                                              const link::Sealing& sealing, Rank ranks, link::Ports ports = {},
                                              std::chrono::milliseconds cut = std::chrono::seconds(30));
  link::Address address() const { return address_; }
  // Executes requests from here on; until then nobody is answered. `space` must outlive the server.
  void serve(const pgas::Space& space);
  // Has this rank's connection been closed?
  bool has_left(Rank rank) const { return left_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }

 private:
  class Connection;
  Server(const link::Key& key, const link::Sealing& sealing, Rank ranks, std::chrono::milliseconds cut);
  bool welcomes(const link::Claim& claim) const;

  link::Address address_;
  link::Sealing sealing_;
  std::vector<std::atomic<bool>> left_;
  const pgas::Space* space_ = nullptr;  // constant while the loop runs
  link::Loop loop_;
};

}  // namespace weft::net::rma
