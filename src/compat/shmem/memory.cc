#include <bit>
#include <cstring>

#include "compat/shmem/library.h"
#include "onesided/pgas/lock.h"

using namespace weft;
using compat::shmem::Library;
using compat::shmem::library;

namespace {

// Null: no room, on any PE.
void* allocate(const char* call, std::size_t size, std::size_t alignment) {
  Library& l = library(call);
  if (size == 0) return nullptr;
  const auto memory = l.pe->allocate(call, size, alignment);
  if (!memory && memory.error().blame != Blame::kOperation)
    compat::shmem::require(call, tl::make_unexpected(memory.error()));
  return memory ? *memory : nullptr;
}

void release(const char* call, void* memory) {
  Library& l = library(call);
  if (memory != nullptr) compat::shmem::require(call, l.pe->free(call, memory));
}

void* reallocate(const char* call, void* memory, std::size_t size) {
  if (memory == nullptr) return allocate(call, size, 1);
  if (size == 0) {
    release(call, memory);
    return nullptr;
  }
  const auto fresh = library(call).pe->reallocate(call, memory, size);
  if (!fresh && fresh.error().blame != Blame::kOperation)
    compat::shmem::require(call, tl::make_unexpected(fresh.error()));
  return fresh ? *fresh : nullptr;
}

void* align(const char* call, std::size_t alignment, std::size_t size) {
  if (!std::has_single_bit(alignment)) return nullptr;
  return allocate(call, size, alignment);
}

}  // namespace

WEFT_SHMEM_DEFINE(void*, malloc, (size_t size)) { return allocate("shmem_malloc", size, 1); }
WEFT_SHMEM_DEFINE(void*, malloc_with_hints, (size_t size, long)) {
  return allocate("shmem_malloc_with_hints", size, 1);  // all memory here is as good for atomics and signals
}
WEFT_SHMEM_DEFINE(void*, calloc, (size_t count, size_t size)) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;  // no PE has that
  void* const memory = allocate("shmem_calloc", bytes, 1);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, bytes);
  compat::shmem::require("shmem_calloc", library("shmem_calloc").pe->everybody().barrier());
  return memory;
}
WEFT_SHMEM_DEFINE(void*, realloc, (void* ptr, size_t size)) { return reallocate("shmem_realloc", ptr, size); }
WEFT_SHMEM_DEFINE(void*, align, (size_t alignment, size_t size)) { return align("shmem_align", alignment, size); }
WEFT_SHMEM_DEFINE(void, free, (void* ptr)) { release("shmem_free", ptr); }

extern "C" void* shmalloc(size_t size) { return allocate("shmalloc", size, 1); }
extern "C" void shfree(void* ptr) { release("shfree", ptr); }
extern "C" void* shrealloc(void* ptr, size_t size) { return reallocate("shrealloc", ptr, size); }
extern "C" void* shmemalign(size_t alignment, size_t size) { return align("shmemalign", alignment, size); }

WEFT_SHMEM_DEFINE(void, set_lock, (long* lock)) {
  const Library& l = library("shmem_set_lock");
  pgas::set_lock(l.space(), l.pe->watch(), "shmem_set_lock", lock);
}
WEFT_SHMEM_DEFINE(void, clear_lock, (long* lock)) {
  pgas::clear_lock(library("shmem_clear_lock").space(), "shmem_clear_lock", lock);
}
WEFT_SHMEM_DEFINE(int, test_lock, (long* lock)) {
  return pgas::try_lock(library("shmem_test_lock").space(), "shmem_test_lock", lock) ? 0 : 1;
}
