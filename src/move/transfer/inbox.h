#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "weft/transfer.h"

namespace weft::transfer {

// Notifications that have come by connections and that the owner has not taken. Thread: any.
class Inbox {
 public:
  // Bytes of notifications of one connection that the owner has taken, as notification_bytes() counts, modulo 2^32.
  using Taken = std::atomic<std::uint32_t>;

  void put(const std::string& peer, std::string bytes, std::shared_ptr<Taken> taken);
  std::vector<Notification> take();
  // Whether another connection may be granted its window. Connections that have ended leave what they brought.
  bool has_room() const;

 private:
  struct Entry {
    Notification notification;
    std::shared_ptr<Taken> taken;
  };
  mutable Mutex mutex_;
  std::vector<Entry> entries_ WEFT_GUARDED_BY(mutex_);
  std::size_t bytes_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::transfer
