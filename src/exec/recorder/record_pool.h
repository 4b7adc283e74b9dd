#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/own_folder.h"
#include "base/result.h"
#include "exec/recorder/format.h"

namespace weft::recorder {

using weft::own_folder;  // where this user's records are

// The offsets in a place for records of at most `entries`. Labels have pages of their own.
struct Layout {
  int entries;
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t bytes_for(int entries) {
    return sizeof(Header) + static_cast<std::size_t>(entries) * sizeof(Entry);
  }
  constexpr std::size_t labels_at() const { return (bytes_for(entries) + kPage - 1) / kPage * kPage; }
  constexpr std::size_t bytes() const { return labels_at() + (kLabels * sizeof(Kind) + kPage - 1) / kPage * kPage; }
};

// Memory of one record: a place in a file, or private memory.
class Room {
 public:
  // A file of places; it goes with the last of them. Thread: any.
  class File;

  Room(std::shared_ptr<File> file, void* memory) : file_(std::move(file)), memory_(memory) {}
  explicit Room(Layout layout);  // private; null if there is no memory
  ~Room();
  Room(Room&& other) noexcept
      : file_(std::move(other.file_)),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        has_pages_(other.has_pages_) {}
  Room& operator=(Room&&) = delete;

  void* memory() const { return memory_; }
  bool shared() const { return file_ != nullptr; }
  // Makes the pages of bytes that will be stored to: a store must never find /dev/shm full. False: it cannot afford a
  // record of `size` bytes.
  bool make_pages(std::size_t at, std::size_t bytes, std::size_t size);

 private:
  std::shared_ptr<File> file_;  // null: private
  void* memory_;
  std::size_t bytes_ = 0;   // of private memory
  bool has_pages_ = false;  // in the file
};

// The files in which a process keeps the records of communicators that stem from one: to make one for each would cost
// more than all else that a split does. Thread: any.
class RecordPool {
 public:
  // Records have at most `entries`, rounded down to a power of two, but some at least.
  explicit RecordPool(int entries);
  Layout layout() const { return layout_; }

  // A place that is zero, with pages for `entries`, which it may halve. Private memory for all where there is no place.
  Room take(int& entries);

 private:
  std::shared_ptr<Room::File> file_with_room() WEFT_REQUIRES(mutex_);
  const Layout layout_;
  Mutex mutex_;
  std::vector<std::weak_ptr<Room::File>> files_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::recorder
