#include "compat/shmem/library.h"

using namespace weft;
using compat::shmem::Library;
using compat::shmem::library;

namespace {

void put(const char* call, shmem_ctx_t ctx, void* to, const void* from, std::size_t bytes, int pe) {
  const Library& l = library(call);
  pgas::put(l.space(), call, to, from, bytes, l.job_rank(call, ctx, pe));
}
void get(const char* call, shmem_ctx_t ctx, void* to, const void* from, std::size_t bytes, int pe) {
  const Library& l = library(call);
  pgas::get(l.space(), call, to, from, bytes, l.job_rank(call, ctx, pe));
}
template <class T>
void put_one(const char* call, shmem_ctx_t ctx, T* to, T value, int pe) {
  const Library& l = library(call);
  pgas::put_one(l.space(), call, to, value, l.job_rank(call, ctx, pe));
}
template <class T>
T get_one(const char* call, shmem_ctx_t ctx, const T* from, int pe) {
  const Library& l = library(call);
  return pgas::get_one(l.space(), call, from, l.job_rank(call, ctx, pe));
}
void iput(const char* call, shmem_ctx_t ctx, void* to, const void* from, ptrdiff_t to_stride, ptrdiff_t from_stride,
          std::size_t count, std::size_t element, int pe) {
  const Library& l = library(call);
  pgas::put_strided(l.space(), call, to, from, element, to_stride, from_stride, count, l.job_rank(call, ctx, pe));
}
void iget(const char* call, shmem_ctx_t ctx, void* to, const void* from, ptrdiff_t to_stride, ptrdiff_t from_stride,
          std::size_t count, std::size_t element, int pe) {
  const Library& l = library(call);
  pgas::get_strided(l.space(), call, to, from, element, to_stride, from_stride, count, l.job_rank(call, ctx, pe));
}
void put_signal(const char* call, shmem_ctx_t ctx, void* to, const void* from, std::size_t bytes, uint64_t* signal,
                uint64_t value, int op, int pe) {
  const Library& l = library(call);
  if (op != SHMEM_SIGNAL_SET && op != SHMEM_SIGNAL_ADD)
    l.space().misuse(call, fmt::format("sig_op {} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD", op));
  pgas::put_signal(l.space(), call, to, from, bytes, signal, value, static_cast<pgas::SignalOp>(op),
                   l.job_rank(call, ctx, pe));
}

}  // namespace

// `unit`: bytes of an element. Blocking and not: both are complete on return where peers' memory is mapped.
#define DEFINE_ONE(direction, T, function, unit)                                                                 \
  WEFT_SHMEM_DEFINE(void, function, (T * dest, const T* source, size_t nelems, int pe)) {                        \
    direction("shmem_" #function, SHMEM_CTX_DEFAULT, dest, source, pgas::bytes_of(nelems, unit), pe);            \
  }                                                                                                              \
  WEFT_SHMEM_DEFINE(void, ctx_##function, (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems, int pe)) { \
    direction("shmem_ctx_" #function, ctx, dest, source, pgas::bytes_of(nelems, unit), pe);                      \
  }

#define DEFINE_SIGNALLED(T, function, unit)                                                                            \
  WEFT_SHMEM_DEFINE(                                                                                                   \
      void, function,                                                                                                  \
      (T * dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, int sig_op, int pe)) {           \
    put_signal("shmem_" #function, SHMEM_CTX_DEFAULT, dest, source, pgas::bytes_of(nelems, unit), sig_addr, signal,    \
               sig_op, pe);                                                                                            \
  }                                                                                                                    \
  WEFT_SHMEM_DEFINE(void, ctx_##function,                                                                              \
                    (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal,   \
                     int sig_op, int pe)) {                                                                            \
    put_signal("shmem_ctx_" #function, ctx, dest, source, pgas::bytes_of(nelems, unit), sig_addr, signal, sig_op, pe); \
  }

#define DEFINE_TYPED(T, name, a, b)                 \
  DEFINE_ONE(put, T, name##_put, sizeof(T))         \
  DEFINE_ONE(get, T, name##_get, sizeof(T))         \
  DEFINE_ONE(put, T, name##_put_nbi, sizeof(T))     \
  DEFINE_ONE(get, T, name##_get_nbi, sizeof(T))     \
  DEFINE_SIGNALLED(T, name##_put_signal, sizeof(T)) \
  DEFINE_SIGNALLED(T, name##_put_signal_nbi, sizeof(T))
WEFT_SHMEM_RMA_TYPES(DEFINE_TYPED, , )

#define DEFINE_BYTES(size, unit)                   \
  DEFINE_ONE(put, void, put##size, unit)           \
  DEFINE_ONE(get, void, get##size, unit)           \
  DEFINE_ONE(put, void, put##size##_nbi, unit)     \
  DEFINE_ONE(get, void, get##size##_nbi, unit)     \
  DEFINE_SIGNALLED(void, put##size##_signal, unit) \
  DEFINE_SIGNALLED(void, put##size##_signal_nbi, unit)
#define DEFINE_BITS(bits, a, b) DEFINE_BYTES(bits, bits / 8)
WEFT_SHMEM_BIT_SIZES(DEFINE_BITS, , )
DEFINE_BYTES(mem, 1)

#define DEFINE_ELEMENT(T, name, a, b)                                                     \
  WEFT_SHMEM_DEFINE(void, name##_p, (T * dest, T value, int pe)) {                        \
    put_one("shmem_" #name "_p", SHMEM_CTX_DEFAULT, dest, value, pe);                     \
  }                                                                                       \
  WEFT_SHMEM_DEFINE(void, ctx_##name##_p, (shmem_ctx_t ctx, T * dest, T value, int pe)) { \
    put_one("shmem_ctx_" #name "_p", ctx, dest, value, pe);                               \
  }                                                                                       \
  WEFT_SHMEM_DEFINE(T, name##_g, (const T* source, int pe)) {                             \
    return get_one("shmem_" #name "_g", SHMEM_CTX_DEFAULT, source, pe);                   \
  }                                                                                       \
  WEFT_SHMEM_DEFINE(T, ctx_##name##_g, (shmem_ctx_t ctx, const T* source, int pe)) {      \
    return get_one("shmem_ctx_" #name "_g", ctx, source, pe);                             \
  }
WEFT_SHMEM_RMA_TYPES(DEFINE_ELEMENT, , )

#define DEFINE_STRIDED(direction, T, function, unit)                                                       \
  WEFT_SHMEM_DEFINE(void, function,                                                                        \
                    (T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)) {    \
    direction("shmem_" #function, SHMEM_CTX_DEFAULT, dest, source, dst, sst, nelems, unit, pe);            \
  }                                                                                                        \
  WEFT_SHMEM_DEFINE(                                                                                       \
      void, ctx_##function,                                                                                \
      (shmem_ctx_t ctx, T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)) { \
    direction("shmem_ctx_" #function, ctx, dest, source, dst, sst, nelems, unit, pe);                      \
  }
#define DEFINE_TYPED_STRIDED(T, name, a, b)       \
  DEFINE_STRIDED(iput, T, name##_iput, sizeof(T)) \
  DEFINE_STRIDED(iget, T, name##_iget, sizeof(T))
WEFT_SHMEM_RMA_TYPES(DEFINE_TYPED_STRIDED, , )
#define DEFINE_BITS_STRIDED(bits, a, b)            \
  DEFINE_STRIDED(iput, void, iput##bits, bits / 8) \
  DEFINE_STRIDED(iget, void, iget##bits, bits / 8)
WEFT_SHMEM_BIT_SIZES(DEFINE_BITS_STRIDED, , )

WEFT_SHMEM_DEFINE(uint64_t, signal_fetch, (const uint64_t* sig_addr)) {
  const Library& l = library("shmem_signal_fetch");
  return pgas::atomic<pgas::AtomicOp::kFetch>(l.space(), "shmem_signal_fetch", sig_addr, uint64_t{0}, uint64_t{0},
                                              l.pe->rank());
}
WEFT_SHMEM_DEFINE(void, fence, (void)) { pgas::fence(library("shmem_fence").space()); }
WEFT_SHMEM_DEFINE(void, quiet, (void)) { pgas::quiet(library("shmem_quiet").space()); }
WEFT_SHMEM_DEFINE(void, ctx_fence, (shmem_ctx_t)) { pgas::fence(library("shmem_ctx_fence").space()); }
WEFT_SHMEM_DEFINE(void, ctx_quiet, (shmem_ctx_t)) { pgas::quiet(library("shmem_ctx_quiet").space()); }
