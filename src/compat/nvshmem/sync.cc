#include "compat/nvshmem/library.h"

using namespace weft;
using compat::nvshmem::comparison;
using compat::nvshmem::library;
using compat::nvshmem::on_stream;

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
#define DEFINE_WAITS(T, name, suffix, Value, address, step)                                                         \
  WEFT_NVSHMEM_DEFINE(name##_wait_until_all##suffix, (T * ivars, size_t nelems, const int* status, int cmp, Value), \
                      pgas::wait_all(WATCH(kCall, address, step), IDLE(kCall)))                                     \
  extern "C" size_t nvshmem_##name##_wait_until_any##suffix(T* ivars, size_t nelems, const int* status, int cmp,    \
                                                            Value) {                                                \
    constexpr const char* kCall = "nvshmem_" #name "_wait_until_any" #suffix;                                       \
    return pgas::wait_any(WATCH(kCall, address, step), IDLE(kCall));                                                \
  }                                                                                                                 \
  extern "C" size_t nvshmem_##name##_wait_until_some##suffix(T* ivars, size_t nelems, size_t* indices,              \
                                                             const int* status, int cmp, Value) {                   \
    constexpr const char* kCall = "nvshmem_" #name "_wait_until_some" #suffix;                                      \
    return pgas::wait_some(WATCH(kCall, address, step), indices, IDLE(kCall));                                      \
  }                                                                                                                 \
  extern "C" int nvshmem_##name##_test_all##suffix(T* ivars, size_t nelems, const int* status, int cmp, Value) {    \
    return pgas::test_all(WATCH("nvshmem_" #name "_test_all" #suffix, address, step)) ? 1 : 0;                      \
  }                                                                                                                 \
  extern "C" size_t nvshmem_##name##_test_any##suffix(T* ivars, size_t nelems, const int* status, int cmp, Value) { \
    return pgas::test_any(WATCH("nvshmem_" #name "_test_any" #suffix, address, step));                              \
  }                                                                                                                 \
  extern "C" size_t nvshmem_##name##_test_some##suffix(T* ivars, size_t nelems, size_t* indices, const int* status, \
                                                       int cmp, Value) {                                            \
    return pgas::test_some(WATCH("nvshmem_" #name "_test_some" #suffix, address, step), indices);                   \
  }

#define DEFINE_SYNC(T, name, a, b)                                                                                  \
  WEFT_NVSHMEM_DEFINE(name##_wait_until, (T * ivar, int cmp, T cmp_value), wait_until(kCall, ivar, cmp, cmp_value)) \
  extern "C" int nvshmem_##name##_test(T* ivar, int cmp, T cmp_value) {                                             \
    return pgas::test_all(watched("nvshmem_" #name "_test", ivar, 1, nullptr, cmp, &cmp_value, 0)) ? 1 : 0;         \
  }                                                                                                                 \
  DEFINE_WAITS(T, name, , T cmp_value, &cmp_value, 0)                                                               \
  DEFINE_WAITS(T, name, _vector, T* cmp_values, cmp_values, 1)
WEFT_SHMEM_WAIT_TYPES(DEFINE_SYNC, , )

extern "C" {
uint64_t nvshmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value) {
  wait_until("nvshmem_signal_wait_until", sig_addr, cmp, cmp_value);
  return pgas::look(sig_addr);
}
void nvshmemx_signal_wait_until_on_stream(uint64_t* sig_addr, int cmp, uint64_t cmp_value, cudaStream_t stream) {
  constexpr const char* kCall = "nvshmemx_signal_wait_until_on_stream";
  on_stream(kCall, stream, [=] { wait_until(kCall, sig_addr, cmp, cmp_value); });
}
}
