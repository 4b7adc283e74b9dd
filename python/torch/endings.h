#pragma once

#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
#define WEFT_TORCH_HAS_COMPLETION_HOOKS
#endif

namespace weft::torch_adapter {

// What a group does when one of its calls has begun or ended: timeouts that are longer for a while, and completion
// hooks. Thread: any.
class Endings {
 public:
  using Key = std::uint64_t;  // of a call; no two of a process have the same
  static Key new_key() {
    static std::atomic<Key> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  // Calls that begin from now on may take that much longer, until the first of them has ended.
  void extend(std::chrono::milliseconds more) {
    const std::lock_guard guard(mutex_);
    extensions_.push_back({more, std::nullopt});
    any_ = true;
  }
  // How much longer this call may take, which begins now.
  std::chrono::milliseconds begun(Key call) {
    std::chrono::milliseconds sum{0};
    if (!any_.load(std::memory_order_acquire)) [[likely]]
      return sum;
    const std::lock_guard guard(mutex_);
    for (Extension& e : extensions_) {
      sum += e.more;
      if (!e.until) e.until = call;
    }
    return sum;
  }
#ifdef WEFT_TORCH_HAS_COMPLETION_HOOKS
  void add_hook(std::int64_t id, c10d::CompletionHook hook) {
    const std::lock_guard guard(mutex_);
    hooks_[id] = std::move(hook);
    any_ = true;
  }
  void remove_hook(std::int64_t id) {
    const std::lock_guard guard(mutex_);
    hooks_.erase(id);
  }
#endif
  // Before anybody who waits for the call goes on. `duration`: in milliseconds, if it was measured.
  void ended(Key call, bool well, std::optional<float> duration) {
    if (!any_.load(std::memory_order_acquire)) [[likely]]
      return;
    const std::lock_guard guard(mutex_);
    std::erase_if(extensions_, [call](const Extension& e) { return e.until == call; });
#ifdef WEFT_TORCH_HAS_COMPLETION_HOOKS
    for (const auto& [id, hook] : hooks_)
      if (well) hook({.completionKey = call, .duration_ms = duration});
    any_ = !extensions_.empty() || !hooks_.empty();
#else
    any_ = !extensions_.empty();
#endif
  }

 private:
  struct Extension {
    std::chrono::milliseconds more;
    std::optional<Key> until;  // null: no call has begun since
  };
  std::atomic<bool> any_{false};  // of what follows
  std::mutex mutex_;              // of what follows
  std::vector<Extension> extensions_;
#ifdef WEFT_TORCH_HAS_COMPLETION_HOOKS
  std::map<std::int64_t, c10d::CompletionHook> hooks_;
#endif
};

}  // namespace weft::torch_adapter
