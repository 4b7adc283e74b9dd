#pragma once

#include "weft/device.h"

namespace weft::device {

// A thread of a GPU's kernel, as operations between ranks need it. What each is in PTX stands with it; all that peers see
// is at system scope, because they may be on other GPUs. Blocks have whole warps.
class GpuThread {
 public:
  static constexpr int kWarp = 32;

  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return static_cast<int>(blockDim.x); }

  __device__ void barrier() const { __syncthreads(); }
  __device__ bool all(bool yes) const { return __syncthreads_and(yes) != 0; }
  __device__ bool warp_any(bool yes) const { return __any_sync(kEverybody, yes) != 0; }

  __device__ void warp_barrier() const { __syncwarp(); }
  // The value of the warp's first lane.
  __device__ std::uint64_t warp_first(std::uint64_t value) const { return __shfl_sync(kEverybody, value, 0); }

  __device__ std::uint64_t load_acquire(const std::uint64_t* from) const {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ void store_release(std::uint64_t* to, std::uint64_t value) const {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  }

  // With acquire and release; return what was there.
  __device__ std::uint64_t fetch_add(std::uint64_t* at, std::uint64_t value) const {
    std::uint64_t before;
    asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(value) : "memory");
    return before;
  }
  __device__ std::uint64_t compare_swap_word(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) const {
    std::uint64_t before;
    asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(before)
                 : "l"(at), "l"(expected), "l"(value)
                 : "memory");
    return before;
  }

  template <class Value>
  __device__ Value load(const Value* from) const {
    return *from;
  }
  template <class Value>
  __device__ void store(Value* to, Value value) const {
    *to = value;
  }
  __device__ Pack load(const Pack* from) const {
    Pack pack;
    asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(pack.low), "=l"(pack.high) : "l"(from));
    return pack;
  }
  __device__ void store(Pack* to, Pack value) const {
    asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(value.low), "l"(value.high) : "memory");
  }

  __device__ std::int64_t clock_ns() const {
    std::int64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  __device__ void relax() const {}

 protected:
  static constexpr unsigned kEverybody = 0xffffffff;
};

}  // namespace weft::device
