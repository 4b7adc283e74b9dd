#pragma once

#include "base/device.h"
#include "exec/device/packs.h"

// Loads, stores and copies of bytes that lie anywhere, by a thread or by several together. Machine: see endpoint.h.
namespace weft::exec::device {

template <class Step, class Machine>
WEFT_DEVICE Pack load_steps(Machine& machine, const std::byte* from, std::int64_t size) {
  std::uint64_t half[2] = {0, 0};
  constexpr int kStep = static_cast<int>(sizeof(Step));
  for (int i = 0; i < size; i += kStep)
    half[i / 8] |= static_cast<std::uint64_t>(machine.load(reinterpret_cast<const Step*>(from + i))) << i % 8 * 8;
  return {half[0], half[1]};
}

// Up to 16 bytes: with one load where they are aligned to that, else in the largest steps that their address allows.
template <class Machine>
WEFT_DEVICE Pack load_some(Machine& machine, const std::byte* from, std::int64_t size) {
  const auto place = reinterpret_cast<std::uint64_t>(from) | static_cast<std::uint64_t>(size);
  if (place % sizeof(Pack) == 0) return machine.load(reinterpret_cast<const Pack*>(from));
  if (place % 8 == 0) return load_steps<std::uint64_t>(machine, from, size);
  if (place % 4 == 0) return load_steps<std::uint32_t>(machine, from, size);
  return load_steps<std::uint8_t>(machine, from, size);
}

template <class Step, class Machine>
WEFT_DEVICE void store_steps(Machine& machine, std::byte* to, Pack value, std::int64_t size) {
  constexpr int kStep = static_cast<int>(sizeof(Step));
  for (int i = 0; i < size; i += kStep)
    machine.store(reinterpret_cast<Step*>(to + i), static_cast<Step>((i < 8 ? value.low : value.high) >> i % 8 * 8));
}

template <class Machine>
WEFT_DEVICE void store_some(Machine& machine, std::byte* to, Pack value, std::int64_t size) {
  const auto place = reinterpret_cast<std::uint64_t>(to) | static_cast<std::uint64_t>(size);
  if (size == 0) return;
  if (place % sizeof(Pack) == 0) return machine.store(reinterpret_cast<Pack*>(to), value);
  if (place % 8 == 0) return store_steps<std::uint64_t>(machine, to, value, size);
  if (place % 4 == 0) return store_steps<std::uint32_t>(machine, to, value, size);
  store_steps<std::uint8_t>(machine, to, value, size);
}

// The `lane`-th of `lanes` threads' share of a copy.
template <class Machine>
WEFT_DEVICE void copy_share(Machine& machine, std::byte* to, const std::byte* from, std::int64_t bytes, int lane,
                            int lanes) {
  for (std::int64_t u = lane; u < MemoryUnits::count(bytes); u += lanes) {
    const Unit unit = MemoryUnits::at(u, bytes);
    store_some(machine, to + unit.offset, load_some(machine, from + unit.offset, unit.size), unit.size);
  }
}

}  // namespace weft::exec::device
