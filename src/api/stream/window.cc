#include "api/stream/window.h"

namespace weft::stream {
namespace {

Status check(const Group& group, std::span<void* const> memory) {
  if (!group.in_one_process())
    return failure(Code::kUnsupported, Blame::kInput, "windows are for ranks of one process");
  for (Rank r = 0; r < group.ranks(); ++r)  // signals and barriers are additions to peers' words
    for (Rank peer = 0; peer < group.ranks(); ++peer)
      WEFT_CHECK(group.device().atomics(group.device_of(r), group.device_of(peer)));
  if (memory.size() != static_cast<std::size_t>(group.ranks()))
    return bad_input("a window of {} ranks needs memory of each, not {}", group.ranks(), memory.size());
  for (const void* m : memory) {
    WEFT_CHECK(group.device().check_pointer(m, "the window's memory"));
    if (reinterpret_cast<std::uintptr_t>(m) % sizeof(device::Pack) != 0)
      return bad_input("the window's memory is not aligned to {} bytes", sizeof(device::Pack));
  }
  return {};
}

}  // namespace

Result<std::vector<Window>> Window::over(const std::shared_ptr<Group>& group, std::span<void* const> memory,
                                         Bytes bytes) {
  WEFT_CHECK(check(*group, memory));
  WEFT_TRY(const OnDevice back, OnDevice::use(group->device(), group->device_of(0)));
  std::vector<Window> all(memory.size());
  for (Rank r = 0; r < group->ranks(); ++r) {
    Window& w = all[static_cast<std::size_t>(r)];
    w.group_ = group, w.rank_ = r, w.size_ = bytes;
    w.data_ = static_cast<std::byte*>(memory[static_cast<std::size_t>(r)]);
    WEFT_CHECK(group->device().use(group->device_of(r)));
    WEFT_TRY(w.table_, DeviceMemory::make(group->runtime(), static_cast<Bytes>(memory.size_bytes())));
    WEFT_CHECK(group->device().copy_now(w.table_.data(), memory.data(), static_cast<Bytes>(memory.size_bytes())));
  }
  return all;
}

Result<std::vector<Window>> Window::allocate(const std::shared_ptr<Group>& group, Bytes bytes) {
  WEFT_TRY(const OnDevice back, OnDevice::use(group->device(), group->device_of(0)));
  std::vector<DeviceMemory> own;
  std::vector<void*> memory;
  for (Rank r = 0; r < group->ranks(); ++r) {
    WEFT_CHECK(group->device().use(group->device_of(r)));
    WEFT_TRY(own.emplace_back(), DeviceMemory::make(group->runtime(), bytes));
    WEFT_CHECK(group->device().clear_now(own.back().data(), bytes));
    memory.push_back(own.back().data());
  }
  WEFT_TRY(std::vector<Window> all, over(group, memory, bytes));
  for (std::size_t r = 0; r < all.size(); ++r) all[r].own_ = std::move(own[r]);
  return all;
}

}  // namespace weft::stream
