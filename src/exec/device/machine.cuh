#pragma once

#include "exec/device/endpoint.h"
#include "weft/device.cuh"

namespace weft::exec::device {

// The machine of endpoint.h on a GPU: one thread of a block, with what only protocols of messages need.
class CudaMachine : public weft::device::GpuThread {
 public:
  __device__ CudaMachine(Operands& operands, Staged& staged) : operands_(operands), staged_(staged) {}

  __device__ Operands& operands() const { return operands_; }
  __device__ Staged& staged() const { return staged_; }

  __device__ std::uint32_t load_stop(const std::uint32_t* from) const {
    std::uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ void store_stop(std::uint32_t* to, std::uint32_t value) const {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
  __device__ std::uint32_t compare_swap(std::uint32_t* at, std::uint32_t expected, std::uint32_t value) const {
    return atomicCAS_system(at, expected, value);
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

  // One instruction of the warp loads, and one stores, whole lines of 128 bytes: see BlockEndpoint::move_lines. Lanes
  // that have parted before would load at different times: data before, and a flag after the line has come.
  __device__ bool load_line(const Pack* from, bool active, bool has_flag, std::uint64_t flag, Pack& value) const {
    __syncwarp();
    if (active) value = load_words(from);
    return __all_sync(kEverybody, !active || !has_flag || value.high == flag) != 0;
  }
  __device__ void store_line(Pack* to, bool active, bool, Pack value) const {
    __syncwarp();
    if (active) store_words(to, value);
  }

 private:
  Operands& operands_;
  Staged& staged_;
};

}  // namespace weft::exec::device
