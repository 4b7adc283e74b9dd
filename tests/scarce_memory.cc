#include "tests/scarce_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kPlenty = std::numeric_limits<std::int64_t>::max() / 2;
std::atomic<std::int64_t> left{kPlenty};

void* take(std::size_t bytes, std::size_t alignment) {
  if (left.load(std::memory_order_relaxed) < static_cast<std::int64_t>(bytes)) throw std::bad_alloc();
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes == 0 ? 1 : bytes) != 0)
    throw std::bad_alloc();
  left -= static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void give(void* memory) {
  if (memory == nullptr) return;
  left += static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

namespace weft::tests {

void leave_memory(std::size_t bytes) { left = static_cast<std::int64_t>(bytes); }
void give_memory_back() { left = kPlenty; }

}  // namespace weft::tests

void* operator new(std::size_t bytes) { return take(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give(memory); }
