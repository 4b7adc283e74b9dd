#pragma once

#include "exec/device/endpoint.h"

namespace weft::exec::device {

// The machine of endpoint.h on a GPU: one thread of a block. What each operation is in PTX stands with it; all that
// peers see is at system scope, because they may be on other GPUs.
class CudaMachine {
 public:
  static constexpr int kWarp = 32;

  __device__ explicit CudaMachine(Operands& operands) : operands_(operands) {}

  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return static_cast<int>(blockDim.x); }
  __device__ Operands& operands() const { return operands_; }

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
  __device__ std::uint32_t load_stop(const std::uint32_t* from) const {
    std::uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ std::uint32_t compare_swap(std::uint32_t* at, std::uint32_t expected, std::uint32_t value) const {
    return atomicCAS_system(at, expected, value);
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

  // A volatile access is as a relaxed one at system scope; of a vector each 64-bit element is whole.
  __device__ Pack load_words(const Pack* from) const {
    Pack pack;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(pack.low), "=l"(pack.high)
                 : "l"(from)
                 : "memory");
    return pack;
  }
  __device__ void store_words(Pack* to, Pack value) const {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(value.low), "l"(value.high) : "memory");
  }

  // One instruction of the warp loads, and one stores, whole lines of 128 bytes: see BlockEndpoint::move_lines.
  __device__ bool load_line(const Pack* from, bool active, bool has_flag, std::uint64_t flag, Pack& value) const {
    if (active) value = load_words(from);
    return __all_sync(kEverybody, !active || !has_flag || value.high == flag) != 0;
  }
  __device__ void store_line(Pack* to, bool active, bool, Pack value) const {
    __syncwarp();
    if (active) store_words(to, value);
  }

  __device__ std::int64_t clock_ns() const {
    std::int64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  __device__ void relax() const {}

 private:
  static constexpr unsigned kEverybody = 0xffffffff;
  Operands& operands_;
};

}  // namespace weft::exec::device
