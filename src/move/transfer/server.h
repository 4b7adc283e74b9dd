#pragma once

#include "move/transfer/connection.h"
#include "net/link/loop.h"
#include "net/ucx/ucx.h"

namespace weft::transfer {

// Answers peers that reach this agent by TCP or UCX, in a thread of its own. Data crosses a buffer, so that memory is
// touched only while the page's generation is checked and the server's slot pins the region.
class Server {
 public:
  // Errors: see link::listen_on. `regions` and `segment` must outlive the server. `ucx`: peers may go on over it.
  static Result<std::unique_ptr<Server>> open(const net::link::Address& at, const net::link::Key& key,
                                              const Regions& regions, const Segment& segment,
                                              std::shared_ptr<net::ucx::Context> ucx = nullptr);
  net::link::Address address() const { return address_; }
  // Takes what has arrived.
  std::vector<Notification> take_notifications() { return inbox_.take(); }

 private:
  Server(const net::link::Key& key, const Regions& regions, const Segment& segment,
         std::shared_ptr<net::ucx::Context> ucx);

  net::link::Address address_;
  Inbox inbox_;
  const Served served_;
  net::link::Loop loop_;
};

}  // namespace weft::transfer
