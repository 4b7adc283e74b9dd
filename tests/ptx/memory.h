#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::ptx {

// What kernels may reach of the process's memory: an address on the device is the same address on the host.
// Thread: one at a time.
class Memory {
 public:
  struct Range {
    std::uintptr_t begin, end;
    std::string what;  // for messages: "device memory", "pinned memory"
  };

  void add(const void* at, std::size_t bytes, std::string what) {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    ranges_.insert_or_assign(begin, Range{begin, begin + bytes, std::move(what)});
    ++changes_;
  }
  void remove(const void* at) {
    ranges_.erase(reinterpret_cast<std::uintptr_t>(at));
    ++changes_;
  }
  // The range that holds this byte; null if none does. Valid until the next change.
  const Range* find(std::uintptr_t at) const {
    auto after = ranges_.upper_bound(at);
    if (after == ranges_.begin()) return nullptr;
    const Range& range = std::prev(after)->second;
    return at < range.end ? &range : nullptr;
  }
  std::uint64_t changes() const { return changes_; }

  // An address range through which multimem instructions reach the memory of several devices, as a switch with
  // multicast gives it. `members`: where each device's part begins; they are added on their own.
  void add_multicast(const void* at, std::size_t bytes, std::vector<std::byte*> members) {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    multicast_.insert_or_assign(begin, Multicast{begin + bytes, std::move(members)});
  }
  // The places of these bytes in all members; empty: they are no multicast memory.
  std::vector<std::byte*> members_at(std::uintptr_t at, std::size_t bytes) const {
    const auto after = multicast_.upper_bound(at);
    if (after == multicast_.begin()) return {};
    const auto& [begin, range] = *std::prev(after);
    if (at + bytes > range.end) return {};
    std::vector<std::byte*> places;
    for (std::byte* const member : range.members) places.push_back(member + (at - begin));
    return places;
  }

 private:
  struct Multicast {
    std::uintptr_t end;
    std::vector<std::byte*> members;
  };
  std::map<std::uintptr_t, Range> ranges_;
  std::map<std::uintptr_t, Multicast> multicast_;
  std::uint64_t changes_ = 0;
};

}  // namespace weft::ptx
