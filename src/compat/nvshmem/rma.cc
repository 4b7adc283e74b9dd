#include <future>

#include "compat/nvshmem/library.h"

using namespace weft;
using compat::nvshmem::library;
using compat::nvshmem::on_stream;
using compat::nvshmem::signal_op;

namespace {

void put(const char* call, void* to, const void* from, std::size_t bytes, int pe) {
  pgas::put(library(call).space(), call, to, from, bytes, pe);
}
void get(const char* call, void* to, const void* from, std::size_t bytes, int pe) {
  pgas::get(library(call).space(), call, to, from, bytes, pe);
}
void put_signal(const char* call, void* to, const void* from, std::size_t bytes, uint64_t* signal, uint64_t value,
                int op, int pe) {
  const pgas::Space& space = library(call).space();
  pgas::put_signal(space, call, to, from, bytes, signal, value, signal_op(call, op), pe);
}
void change_signal(const char* call, uint64_t* signal, uint64_t value, int op, int pe) {
  put_signal(call, nullptr, nullptr, 0, signal, value, op, pe);
}

// The value that the stream's operation returns is needed now: the caller waits for the stream.
template <class T>
T get_one_on_stream(const char* call, const T* from, int pe, cudaStream_t stream) {
  std::promise<T> got;
  on_stream(call, stream, [&] { got.set_value(pgas::get_one(library(call).space(), call, from, pe)); });
  return got.get_future().get();
}

}  // namespace

#define MOVE(direction, T, function, unit)                                          \
  WEFT_NVSHMEM_DEFINE(function, (T * dest, const T* source, size_t nelems, int pe), \
                      direction(kCall, dest, source, pgas::bytes_of(nelems, unit), pe))
#define SIGNALLED(T, function, unit)                                                                                 \
  WEFT_NVSHMEM_DEFINE(                                                                                               \
      function, (T * dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, int sig_op, int pe), \
      put_signal(kCall, dest, source, pgas::bytes_of(nelems, unit), sig_addr, signal, sig_op, pe))
// Blocking and not: both are complete on return where peers' memory is mapped.
#define MOVES(T, name, suffix, unit)             \
  MOVE(put, T, name##put##suffix, unit)          \
  MOVE(get, T, name##get##suffix, unit)          \
  MOVE(put, T, name##put##suffix##_nbi, unit)    \
  MOVE(get, T, name##get##suffix##_nbi, unit)    \
  SIGNALLED(T, name##put##suffix##_signal, unit) \
  SIGNALLED(T, name##put##suffix##_signal_nbi, unit)
#define STRIDED(T, name, suffix, unit)                                                                            \
  WEFT_NVSHMEM_DEFINE(name##iput##suffix,                                                                         \
                      (T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),           \
                      pgas::put_strided(library(kCall).space(), kCall, dest, source, unit, dst, sst, nelems, pe)) \
  WEFT_NVSHMEM_DEFINE(name##iget##suffix,                                                                         \
                      (T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),           \
                      pgas::get_strided(library(kCall).space(), kCall, dest, source, unit, dst, sst, nelems, pe))
#define TYPED(T, name, a, b)                                                                         \
  MOVES(T, name##_, , sizeof(T))                                                                     \
  STRIDED(T, name##_, , sizeof(T))                                                                   \
  WEFT_NVSHMEM_DEFINE(name##_p, (T * dest, const T value, int pe),                                   \
                      pgas::put_one(library(kCall).space(), kCall, dest, value, pe))                 \
  extern "C" T nvshmem_##name##_g(const T* source, int pe) {                                         \
    return pgas::get_one(library("nvshmem_" #name "_g").space(), "nvshmem_" #name "_g", source, pe); \
  }                                                                                                  \
  extern "C" T nvshmemx_##name##_g_on_stream(const T* source, int pe, cudaStream_t stream) {         \
    return get_one_on_stream("nvshmemx_" #name "_g_on_stream", source, pe, stream);                  \
  }
WEFT_NVSHMEM_RMA_TYPES(TYPED, , )
#define BITS(bits, a, b) MOVES(void, , bits, bits / 8) STRIDED(void, , bits, bits / 8)
WEFT_SHMEM_BIT_SIZES(BITS, , )
MOVES(void, , mem, 1)

extern "C" {
uint64_t nvshmem_signal_fetch(uint64_t* sig_addr) {
  const auto& l = library("nvshmem_signal_fetch");
  return pgas::atomic<pgas::AtomicOp::kFetch>(l.space(), "nvshmem_signal_fetch", sig_addr, uint64_t{0}, uint64_t{0},
                                              l.pe->rank());
}
void nvshmemx_signal_op(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) {
  change_signal("nvshmemx_signal_op", sig_addr, signal, sig_op, pe);
}
void nvshmemx_signal_op_on_stream(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe, cudaStream_t stream) {
  constexpr const char* kCall = "nvshmemx_signal_op_on_stream";
  on_stream(kCall, stream, [=] { change_signal(kCall, sig_addr, signal, sig_op, pe); });
}
void nvshmem_fence(void) { pgas::fence(library("nvshmem_fence").space()); }
void nvshmem_quiet(void) { pgas::quiet(library("nvshmem_quiet").space()); }
void nvshmemx_quiet_on_stream(cudaStream_t stream) {
  on_stream("nvshmemx_quiet_on_stream", stream, [] { pgas::quiet(library("nvshmemx_quiet_on_stream").space()); });
}
// Sources may be changed on return of every put.
void nvshmemx_flush(void) { library("nvshmemx_flush"); }
void nvshmemx_flush_on_stream(cudaStream_t stream) {
  on_stream("nvshmemx_flush_on_stream", stream, [] {});
}
}
