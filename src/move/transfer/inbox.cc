#include "move/transfer/inbox.h"

#include <utility>

#include "move/transfer/wire.h"

namespace weft::transfer {
namespace {

constexpr std::size_t kMostHeld = 16 << 20;  // bytes; beside the windows of the connections that have one

}  // namespace

void Inbox::put(const std::string& peer, std::string bytes, std::shared_ptr<Taken> taken) {
  const MutexLock lock(mutex_);
  bytes_ += notification_bytes(bytes.size());
  entries_.push_back({{peer, std::move(bytes)}, std::move(taken)});
}

std::vector<Notification> Inbox::take() {
  std::vector<Entry> entries;
  {
    const MutexLock lock(mutex_);
    entries.swap(entries_);
    bytes_ = 0;
  }
  std::vector<Notification> list;
  list.reserve(entries.size());
  for (Entry& entry : entries) {
    *entry.taken += notification_bytes(entry.notification.bytes.size());
    list.push_back(std::move(entry.notification));
  }
  return list;
}

bool Inbox::has_room() const {
  const MutexLock lock(mutex_);
  return bytes_ < kMostHeld;
}

}  // namespace weft::transfer
