#pragma once

#include <deque>
#include <map>
#include <optional>

#include "base/free_list.h"
#include "base/mutex.h"
#include "move/transfer/gpu.h"
#include "move/transfer/segment.h"
#include "weft/transfer.h"

namespace weft::transfer {

struct Object;

// What an agent has registered. Its PageWords lie in the agent's segment.
struct Region {
  std::uint32_t id = 0;
  std::byte* data = nullptr;  // null: a file or an object
  Bytes bytes = 0, page_bytes = 0;
  std::uint64_t first_page = 0, pages = 1;
  std::uint64_t generation = 0;      // not fenced: of its one page; fenced: of no earlier region of its number
  SharedMemory memory;               // of allocate()
  std::shared_ptr<Gpu> copier;       // of a GPU's memory: copies it
  int gpu = -1;                      // its GPU
  std::shared_ptr<void> gpu_memory;  // of allocate_gpu()
  UniqueFd file, direct;             // direct: past the page cache
  std::string name;                  // the file's, for messages
  std::shared_ptr<Object> object;    // an object of S3

  // The rest: by the agent's mutex.
  struct Draining {
    std::uint32_t page = 0;
    Grace grace;
  };
  std::vector<std::uint32_t> free;
  std::deque<Draining> draining;
  std::optional<Grace> closing;  // deregister() has begun

  bool fenced() const { return page_bytes > 0; }
};

// The agent and its server look regions up. Thread: any.
class Regions {
 public:
  std::shared_ptr<Region> find(std::uint32_t id) const {
    const MutexLock guard(mutex_);
    const auto found = regions_.find(id);
    return found == regions_.end() ? nullptr : found->second;
  }
  void add(std::shared_ptr<Region> region) {
    const MutexLock guard(mutex_);
    const std::uint32_t id = region->id;
    regions_[id] = std::move(region);
  }
  void remove(std::uint32_t id) {
    const MutexLock guard(mutex_);
    regions_.erase(id);
  }
  std::vector<std::shared_ptr<Region>> all() const {
    const MutexLock guard(mutex_);
    std::vector<std::shared_ptr<Region>> list;
    list.reserve(regions_.size());
    for (const auto& [id, region] : regions_) list.push_back(region);
    return list;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<Region>> regions_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::transfer
