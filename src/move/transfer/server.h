#pragma once

#include <thread>

#include "move/transfer/regions.h"
#include "move/transfer/wire.h"
#include "net/bootstrap/handshake.h"
#include "net/ucx/ucx.h"

namespace weft::transfer {

// Answers peers that reach this agent by TCP or UCX, in a thread of its own. Data crosses a buffer, so that memory is
// touched only while the page's generation is checked and the server's slot pins the region.
class Server {
 public:
  // Errors: see bootstrap::listen_on. `regions` and `segment` must outlive the server. `ucx`: peers may go on over it.
  static Result<std::unique_ptr<Server>> open(const net::bootstrap::Address& at, const net::bootstrap::Key& key,
                                              const Regions& regions, const Segment& segment,
                                              std::shared_ptr<net::ucx::Context> ucx = nullptr);
  ~Server();
  net::bootstrap::Address address() const { return net::bootstrap::local_address(listener_.get()); }
  // Takes what has arrived.
  std::vector<Notification> take_notifications();

 private:
  Server(net::bootstrap::UniqueFd listener, const net::bootstrap::Key& key, const Regions& regions,
         const Segment& segment, std::shared_ptr<net::ucx::Context> ucx);
  void run();
  bool deliver(const std::string& peer, std::string bytes);  // false: the inbox is full

  net::bootstrap::UniqueFd listener_, stop_;
  net::bootstrap::Key key_;
  const Regions& regions_;
  const Segment& segment_;
  std::shared_ptr<net::ucx::Context> ucx_;
  std::mutex mutex_;
  std::vector<Notification> inbox_;  // by mutex_
  std::thread thread_;
};

}  // namespace weft::transfer
