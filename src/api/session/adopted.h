#pragma once

#include <atomic>
#include <memory>

#include "base/forks.h"
#include "base/result.h"
#include "base/units.h"
#include "exec/executor.h"

// Memory of the caller's whose pages have become pages of the job's shared memory (decision 0263).
namespace weft::session {

// One range of it. Its end makes the pages private again; what they hold stays.
class AdoptedPages : public std::enable_shared_from_this<AdoptedPages> {
 public:
  // Null: peers need no shared pages, as ranks that are threads do, or could not use them.
  // Errors: see Communicator::register_memory.
  static Result<std::shared_ptr<AdoptedPages>> adopt(const std::shared_ptr<exec::Executor>& executor, void* data,
                                                     std::size_t bytes);

  AdoptedPages(const std::shared_ptr<exec::Executor>& executor, std::byte* place, std::byte* shared, Bytes bytes);
  ~AdoptedPages();
  AdoptedPages(const AdoptedPages&) = delete;
  AdoptedPages& operator=(const AdoptedPages&) = delete;

  static bool any() { return ranges_.load(std::memory_order_acquire) > 0; }
  // The adopted pages that hold all of these bytes; null: there are none. Thread: any.
  static std::shared_ptr<const AdoptedPages> of(const void* data, Bytes bytes) {
    return any() ? find(data, bytes) : nullptr;
  }
  // The heap address of what lies there, by which peers reach it. Requires: it lies in these pages.
  std::byte* shared(const void* data) const { return shared_ + (static_cast<const std::byte*>(data) - place_); }

 private:
  static std::shared_ptr<const AdoptedPages> find(const void* data, Bytes bytes);
  // Do both ranges still have the same pages? Not if the caller has unmapped its own.
  bool is_shared() const;

  static std::atomic<int> ranges_;
  const std::weak_ptr<exec::Executor> executor_;  // whose heap it is; gone: nobody counts its pages any more
  std::byte* const place_;                        // of the caller
  std::byte* const shared_;                       // the same pages in the heap
  const Bytes bytes_;
  const Owner owner_;
};

// The pages that a call's buffers lie in. They are kept as long as it runs: its program uses them.
struct AdoptedBuffers {
  std::shared_ptr<const AdoptedPages> in, out;
  explicit operator bool() const { return in != nullptr || out != nullptr; }
};

}  // namespace weft::session
