#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

// These functions find memory that processes share. weft's registered memory is one file that all ranks of a
// communicator on one machine have mapped, each at an address of its own; the kernel's list of mappings names the file
// and the address.
namespace weft::torch_adapter {

// A place in a mapped file, which all processes that have mapped it name alike. Trivially copyable: ranks exchange it.
struct SharedPlace {
  std::uint64_t device = 0, inode = 0;  // inode 0: no file
  std::uint64_t offset = 0;             // from the file's start. Unit: bytes
};

// Calls look(start, end, place of start) for every shared mapping of a file, in the order of addresses, until it
// returns true; then returns true. False: it never did, or /proc is not there.
template <class Look>
bool any_shared_mapping(Look look) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long start = 0, end = 0, offset = 0, inode = 0;
    unsigned major = 0, minor = 0;
    char access[5] = {};
    const int fields =
        std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu", &start, &end, access, &offset, &major, &minor, &inode);
    if (fields == 7 && access[3] == 's' && inode != 0 &&
        look(start, end, SharedPlace{std::uint64_t{major} << 32 | minor, inode, offset}))
      return true;
  }
  return false;
}

// Empty: these bytes are not in one mapping that can be shared.
inline std::optional<SharedPlace> shared_place(const void* memory, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  std::optional<SharedPlace> place;
  any_shared_mapping([&](std::uintptr_t start, std::uintptr_t end, SharedPlace of_start) {
    if (at < start || at >= end || bytes > end - at) return false;
    of_start.offset += at - start;
    place = of_start;
    return true;
  });
  return place;
}

// These bytes in this process; null: it has not mapped them.
inline std::byte* address_of(const SharedPlace& place, std::size_t bytes) {
  std::byte* address = nullptr;
  any_shared_mapping([&](std::uintptr_t start, std::uintptr_t end, const SharedPlace& of_start) {
    if (of_start.device != place.device || of_start.inode != place.inode || place.offset < of_start.offset)
      return false;
    const std::uint64_t from_start = place.offset - of_start.offset;
    if (from_start >= end - start || bytes > end - start - from_start) return false;
    address = reinterpret_cast<std::byte*>(start) + from_start;
    return true;
  });
  return address;
}

}  // namespace weft::torch_adapter
