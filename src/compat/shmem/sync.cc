#include "compat/shmem/library.h"

using namespace weft;
using compat::shmem::comparison;
using compat::shmem::library;

namespace {

template <class T>
pgas::Watched<T> watched(const char* call, const T* at, std::size_t count, const int* status, int cmp, const T* against,
                         std::size_t step) {
  return compat::onesided::watched(library(call), call, at, count, status, comparison(call, cmp), against, step);
}
template <class T>
void wait_until(const char* call, const T* at, int cmp, T value) {
  compat::onesided::wait_until(library(call), call, at, comparison(call, cmp), value);
}

}  // namespace

#define WATCH(name, address, step) watched(name, ivars, nelems, status, cmp, address, step)
#define IDLE(name) library(name).idler(name)
// The functions that compare all elements with one value, and those with one value per element.
#define DEFINE_WAITS(T, name, suffix, Value, address, step)                                                           \
  WEFT_SHMEM_DEFINE(void, name##_wait_until_all##suffix,                                                              \
                    (T * ivars, size_t nelems, const int* status, int cmp, Value)) {                                  \
    constexpr const char* kCall = "shmem_" #name "_wait_until_all" #suffix;                                           \
    pgas::wait_all(WATCH(kCall, address, step), IDLE(kCall));                                                         \
  }                                                                                                                   \
  WEFT_SHMEM_DEFINE(size_t, name##_wait_until_any##suffix,                                                            \
                    (T * ivars, size_t nelems, const int* status, int cmp, Value)) {                                  \
    constexpr const char* kCall = "shmem_" #name "_wait_until_any" #suffix;                                           \
    return pgas::wait_any(WATCH(kCall, address, step), IDLE(kCall));                                                  \
  }                                                                                                                   \
  WEFT_SHMEM_DEFINE(size_t, name##_wait_until_some##suffix,                                                           \
                    (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, Value)) {                \
    constexpr const char* kCall = "shmem_" #name "_wait_until_some" #suffix;                                          \
    return pgas::wait_some(WATCH(kCall, address, step), indices, IDLE(kCall));                                        \
  }                                                                                                                   \
  WEFT_SHMEM_DEFINE(int, name##_test_all##suffix, (T * ivars, size_t nelems, const int* status, int cmp, Value)) {    \
    return pgas::test_all(WATCH("shmem_" #name "_test_all" #suffix, address, step)) ? 1 : 0;                          \
  }                                                                                                                   \
  WEFT_SHMEM_DEFINE(size_t, name##_test_any##suffix, (T * ivars, size_t nelems, const int* status, int cmp, Value)) { \
    return pgas::test_any(WATCH("shmem_" #name "_test_any" #suffix, address, step));                                  \
  }                                                                                                                   \
  WEFT_SHMEM_DEFINE(size_t, name##_test_some##suffix,                                                                 \
                    (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, Value)) {                \
    return pgas::test_some(WATCH("shmem_" #name "_test_some" #suffix, address, step), indices);                       \
  }

#define DEFINE_SYNC(T, name, a, b)                                                                        \
  WEFT_SHMEM_DEFINE(void, name##_wait_until, (T * ivar, int cmp, T cmp_value)) {                          \
    wait_until("shmem_" #name "_wait_until", ivar, cmp, cmp_value);                                       \
  }                                                                                                       \
  WEFT_SHMEM_DEFINE(int, name##_test, (T * ivar, int cmp, T cmp_value)) {                                 \
    return pgas::test_all(watched("shmem_" #name "_test", ivar, 1, nullptr, cmp, &cmp_value, 0)) ? 1 : 0; \
  }                                                                                                       \
  DEFINE_WAITS(T, name, , T cmp_value, &cmp_value, 0)                                                     \
  DEFINE_WAITS(T, name, _vector, T* cmp_values, cmp_values, 1)
WEFT_SHMEM_WAIT_TYPES(DEFINE_SYNC, , )

WEFT_SHMEM_DEFINE(uint64_t, signal_wait_until, (uint64_t * sig_addr, int cmp, uint64_t cmp_value)) {
  wait_until("shmem_signal_wait_until", sig_addr, cmp, cmp_value);
  return pgas::look(sig_addr);
}

#define DEFINE_OLD_WAIT(T, name, a, b)                                 \
  WEFT_SHMEM_DEFINE(void, name##_wait, (T * ivar, T cmp_value)) {      \
    wait_until("shmem_" #name "_wait", ivar, SHMEM_CMP_NE, cmp_value); \
  }
WEFT_SHMEM_OLD_INTEGERS(DEFINE_OLD_WAIT, , )
WEFT_SHMEM_DEFINE(void, wait, (long* ivar, long cmp_value)) { wait_until("shmem_wait", ivar, SHMEM_CMP_NE, cmp_value); }
WEFT_SHMEM_DEFINE(void, clear_cache_inv, (void)) {}
WEFT_SHMEM_DEFINE(void, set_cache_inv, (void)) {}
WEFT_SHMEM_DEFINE(void, clear_cache_line_inv, (void*)) {}
WEFT_SHMEM_DEFINE(void, set_cache_line_inv, (void*)) {}
WEFT_SHMEM_DEFINE(void, udcflush, (void)) {}
WEFT_SHMEM_DEFINE(void, udcflush_line, (void*)) {}
