#include "compat/shmem/library.h"
#include "onesided/pgas/lock.h"

using namespace weft;
using compat::shmem::Library;
using compat::shmem::library;

namespace {

void* allocate(const char* call, std::size_t size) { return compat::onesided::allocate(library(call), call, size, 1); }
void release(const char* call, void* memory) { compat::onesided::release(library(call), call, memory); }
void* align(const char* call, std::size_t alignment, std::size_t size) {
  return compat::onesided::allocate_aligned(library(call), call, alignment, size);
}

void* reallocate(const char* call, void* memory, std::size_t size) {
  if (memory == nullptr) return allocate(call, size);
  if (size == 0) {
    release(call, memory);
    return nullptr;
  }
  const auto fresh = library(call).pe->reallocate(call, memory, size);
  if (!fresh && fresh.error().blame != Blame::kOperation)
    library(call).require(call, tl::make_unexpected(fresh.error()));
  return fresh ? *fresh : nullptr;
}

}  // namespace

WEFT_SHMEM_DEFINE(void*, malloc, (size_t size)) { return allocate("shmem_malloc", size); }
WEFT_SHMEM_DEFINE(void*, malloc_with_hints, (size_t size, long)) {
  return allocate("shmem_malloc_with_hints", size);  // all memory here is as good for atomics and signals
}
WEFT_SHMEM_DEFINE(void*, calloc, (size_t count, size_t size)) {
  return compat::onesided::allocate_zeros(library("shmem_calloc"), "shmem_calloc", count, size);
}
WEFT_SHMEM_DEFINE(void*, realloc, (void* ptr, size_t size)) { return reallocate("shmem_realloc", ptr, size); }
WEFT_SHMEM_DEFINE(void*, align, (size_t alignment, size_t size)) { return align("shmem_align", alignment, size); }
WEFT_SHMEM_DEFINE(void, free, (void* ptr)) { release("shmem_free", ptr); }

extern "C" void* shmalloc(size_t size) { return allocate("shmalloc", size); }
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
