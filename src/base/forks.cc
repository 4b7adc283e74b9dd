#include "base/forks.h"

#include <pthread.h>

#include <atomic>

namespace weft {
namespace {

std::atomic<int> forks{0};
#ifndef __wasm__
[[maybe_unused]] const int watched =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
#endif

}  // namespace

int forks_so_far() { return forks.load(std::memory_order_relaxed); }

}  // namespace weft
