#include "stream/group.h"

#include <algorithm>
#include <bit>

namespace weft::stream {

using exec::device::Geometry;
using exec::device::Header;
using exec::device::Trouble;

namespace {

constexpr int kMostStrands = 32;               // of a rank; more are not needed to fill a GPU's memory bandwidth …
constexpr Bytes kMostSlots = Bytes{64} << 20;  // … and cost memory: of all slots of a rank
constexpr Bytes kLeastSlot = Bytes{4} << 10, kMostSlot = Bytes{64} << 10;

Geometry geometry_of(Rank ranks, int strands) {
  const Bytes connections = Bytes{ranks} * strands * protocol::kSlots;
  const auto slot = static_cast<Bytes>(std::bit_floor(static_cast<std::uint64_t>(kMostSlots / connections) | 1));
  const Bytes slot_bytes = std::clamp(slot, kLeastSlot, kMostSlot);
  return {.ranks = ranks, .strands = strands, .slot_bytes = slot_bytes, .line_slot_bytes = slot_bytes / 4};
}

const char* said(Trouble trouble) {
  switch (trouble) {
    case Trouble::kTimeout:
      return "waited too long for";
    case Trouble::kMismatch:
      return "called something else than";
    default:
      return "was aborted while it waited for";
  }
}

Code code_of(Trouble trouble) {
  if (trouble == Trouble::kTimeout) return Code::kTimeout;
  return trouble == Trouble::kMismatch ? Code::kMismatch : Code::kAborted;
}

}  // namespace

Result<std::shared_ptr<Group>> Group::open(std::shared_ptr<Runtime> runtime, std::span<const int> devices,
                                           std::chrono::nanoseconds timeout) {
  if (devices.empty()) return bad_input("a communicator of no ranks");
  WEFT_TRY(const int there, runtime->device->count());
  for (const int device : devices)
    if (device < 0 || device >= there) return bad_input("device {} of {}", device, there);
  std::shared_ptr<Group> group(new Group(std::move(runtime), devices, timeout));
  WEFT_TRY(const OnDevice back, OnDevice::use(group->device(), devices.front()));
  WEFT_CHECK(group->connect());
  WEFT_TRY(const int strands, group->strands());
  group->geometry_ = geometry_of(static_cast<Rank>(devices.size()), strands);
  WEFT_CHECK(group->allocate());
  return group;
}

Status Group::connect() {
  for (const int device : devices_)
    for (const int peer : devices_) WEFT_CHECK(runtime_->device->reach(device, peer));
  return {};
}

// So many that the blocks of all ranks on a device fit there at the same time; asking also loads every kernel.
Result<int> Group::strands() const {
  int least = kMostStrands;
  for (const int device : devices_) {
    WEFT_CHECK(runtime_->device->use(device));
    const auto sharing = static_cast<int>(std::count(devices_.begin(), devices_.end(), device));
    for (int type = 0; type <= kDataTypes; ++type) {
      exec::device::Kernels& kernels = *runtime_->kernels;
      WEFT_TRY(const int blocks, type == kDataTypes
                                     ? kernels.resident_exchange_blocks(kernels.threads())
                                     : kernels.resident_blocks(static_cast<DataType>(type), kernels.threads()));
      if (blocks < sharing)
        return failure(Code::kUnsupported, Blame::kInput, "device {} holds {} blocks at once, but has {} ranks", device,
                       blocks, sharing);
      least = std::min(least, blocks / sharing);
    }
  }
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(least)));
}

Status Group::allocate() {
  net::cuda::Device& device = *runtime_->device;
  const Bytes table_bytes = Bytes{ranks()} * Bytes{sizeof(std::byte*)};
  std::vector<std::byte*> addresses;
  for (Rank r = 0; r < ranks(); ++r) {
    WEFT_CHECK(device.use(device_of(r)));
    WEFT_TRY(regions_.emplace_back(), DeviceMemory::make(runtime_, geometry_.total_bytes() + table_bytes));
    WEFT_CHECK(device.clear_now(region(r), geometry_.total_bytes()));
    addresses.push_back(region(r));
  }
  for (Rank r = 0; r < ranks(); ++r)
    WEFT_CHECK(device.copy_now(region(r) + geometry_.total_bytes(), addresses.data(), table_bytes));
  return {};
}

Status Group::abort() {
  constexpr std::uint32_t kStop = 1;
  for (Rank r = 0; r < ranks(); ++r)
    for (int s = 0; s < geometry_.strands; ++s)
      WEFT_CHECK(
          runtime_->device->copy_now(region(r) + geometry_.header(s) + offsetof(Header, stop), &kStop, sizeof kStop));
  return {};
}

Status Group::trouble(Rank rank) const {
  std::vector<Header> headers(static_cast<std::size_t>(geometry_.strands));
  WEFT_CHECK(runtime_->device->copy_now(headers.data(), region(rank) + geometry_.header(0),
                                        static_cast<Bytes>(headers.size() * sizeof(Header))));
  for (std::size_t s = 0; s < headers.size(); ++s) {
    const Header& h = headers[s];
    if (h.trouble == Trouble::kNone) continue;
    return failure(code_of(h.trouble), Blame::kCommunicator, "rank {} {} {} (strand {}, step {})", rank,
                   said(h.trouble), h.peer < 0 ? std::string("others") : fmt::format("rank {}", h.peer), s, h.step);
  }
  return {};
}

}  // namespace weft::stream
