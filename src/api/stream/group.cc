#include "api/stream/group.h"

#include <algorithm>
#include <bit>

#include "exec/device/flatten.h"

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

// The number of strands with which the blocks of all ranks on a device fit there at the same time; asking also loads
// every kernel.
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

// Cleared, with room for the table and programs behind it. Requires: the calling thread uses the rank's device.
Result<std::byte*> Group::make_region(Rank rank) {
  WEFT_TRY(own_.emplace_back(), DeviceMemory::make(runtime_, room_begins() + static_cast<Bytes>(kProgramRoom)));
  std::byte* const made = own_.back().data();
  WEFT_CHECK(device().clear_now(made, geometry_.total_bytes()));
  return regions_[static_cast<std::size_t>(rank)] = made;
}

Status Group::write_table(Rank rank) {
  return device().copy_now(region(rank) + geometry_.total_bytes(), regions_.data(),
                           static_cast<Bytes>(regions_.size() * sizeof(std::byte*)));
}

Status Group::allocate() {
  regions_.resize(devices_.size());
  for (Rank r = 0; r < ranks(); ++r) {
    WEFT_CHECK(device().use(device_of(r)));
    WEFT_CHECK(make_region(r));
  }
  for (Rank r = 0; r < ranks(); ++r) WEFT_CHECK(write_table(r));
  return {};
}

protocol::Capabilities Group::capabilities() const {
  protocol::Capabilities can = exec::device::capabilities(geometry_);
  can.load_store = in_one_process();
  return can;
}

namespace {

template <class T>
Result<std::vector<T>> from_all(const Gather& gather, Rank ranks, const T& own) {
  std::vector<T> all(static_cast<std::size_t>(ranks));
  WEFT_CHECK(gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
  return all;
}

// Whether all ranks have done something, agreed on by all.
Status agree(const Gather& gather, Rank ranks, const Status& own) {
  WEFT_TRY(const auto all, from_all<std::uint8_t>(gather, ranks, own.has_value()));
  if (!own) return failure(Code::kUnsupported, Blame::kInput, "{}", own.error().message);
  const auto missing = std::find(all.begin(), all.end(), 0);
  if (missing == all.end()) return {};
  return failure(Code::kUnsupported, Blame::kInput, "rank {} cannot: it says why", missing - all.begin());
}

}  // namespace

Result<std::shared_ptr<Group>> Group::join(std::shared_ptr<Runtime> runtime, Rank rank, Rank ranks,
                                           const Gather& gather, std::chrono::nanoseconds timeout) {
  WEFT_TRY(const int device, runtime->device->current());
  std::shared_ptr<Group> group(new Group(std::move(runtime), std::vector<int>{device}, timeout));
  const auto strands = group->strands();
  WEFT_CHECK(agree(gather, ranks, strands ? Status() : tl::make_unexpected(strands.error())));
  WEFT_TRY(const auto fits, from_all(gather, ranks, *strands));
  group->geometry_ = geometry_of(ranks, *std::min_element(fits.begin(), fits.end()));
  group->devices_.assign(static_cast<std::size_t>(ranks), device);
  group->regions_.resize(static_cast<std::size_t>(ranks));
  group->joined_ = ranks > 1;
  net::cuda::SharedMemory shared;
  WEFT_CHECK(agree(gather, ranks, [&]() -> Status {
    WEFT_TRY(std::byte* const own, group->make_region(rank));
    WEFT_TRY(shared, group->device().share(own));
    return {};
  }()));
  WEFT_TRY(const auto all_shared, from_all(gather, ranks, shared));
  const auto open_all = [&]() -> Status {
    WEFT_TRY(group->opened_, group->open_others(rank, all_shared, group->regions_));
    return group->write_table(rank);
  };
  WEFT_CHECK(agree(gather, ranks, open_all()));
  return group;
}

Result<std::vector<std::shared_ptr<void>>> Group::open_others(Rank rank,
                                                              std::span<const net::cuda::SharedMemory> shared,
                                                              std::span<std::byte*> places) {
  std::vector<std::shared_ptr<void>> opened;
  for (Rank r = 0; r < ranks(); ++r) {
    if (r == rank) continue;
    const net::cuda::SharedMemory& there = shared[static_cast<std::size_t>(r)];
    WEFT_TRY(opened.emplace_back(), device().open(there.handle));
    places[static_cast<std::size_t>(r)] = static_cast<std::byte*>(opened.back().get()) + there.offset;
  }
  return opened;
}

namespace {

// The description that a rank sends the others of its part in a window.
struct Offer {
  net::cuda::SharedMemory shared;
  Bytes bytes;
  std::uint64_t free;  // a bit for every number that no window has here
  std::uint64_t possible;
};

}  // namespace

Status Group::add_window(Rank rank, void* memory, Bytes bytes, bool symmetric, const Gather& gather) {
  WEFT_TRY(const OnDevice back, OnDevice::use(device(), device_of(rank)));
  Offer own{{}, bytes, ~std::uint64_t{0}, 0};
  for (const auto& [number, window] : windows_) own.free &= ~(std::uint64_t{1} << number);
  static_assert(kMostWindows == 64);
  Status possible = symmetric ? Status() : failure(Code::kUnsupported, Blame::kInput, "the window is not symmetric");
  if (auto shared = device().share(memory); !shared)
    possible = tl::make_unexpected(shared.error());
  else
    own.shared = *shared;
  own.possible = possible.has_value();
  WEFT_TRY(const auto all, from_all(gather, ranks(), own));

  std::uint64_t free = ~std::uint64_t{0};
  std::vector<net::cuda::SharedMemory> shared;
  Opened opened{static_cast<const std::byte*>(memory), bytes, {}, {}};
  bool all_possible = true;
  for (const Offer& o : all) {
    free &= o.free;
    shared.push_back(o.shared);
    opened.bytes = std::min(opened.bytes, o.bytes);
    all_possible = all_possible && o.possible != 0;
  }
  if (!all_possible || free == 0)
    return failure(Code::kUnsupported, Blame::kInput, "no window: {}",
                   !possible   ? possible.error().message
                   : free == 0 ? "there are too many"
                               : "another rank cannot");
  const int number = std::countr_zero(free);
  std::vector<std::byte*> places(static_cast<std::size_t>(ranks()), static_cast<std::byte*>(memory));
  const auto open_all = [&]() -> Status {
    if (window_table_.data() == nullptr) {
      WEFT_TRY(window_table_, DeviceMemory::make(runtime_, Bytes{kMostWindows} * ranks() * Bytes{sizeof(std::byte*)}));
    }
    WEFT_TRY(opened.others, open_others(rank, shared, places));
    const auto row_bytes = static_cast<Bytes>(places.size() * sizeof(std::byte*));
    return device().copy_now(window_table_.data() + number * row_bytes, places.data(), row_bytes);
  };
  WEFT_CHECK(agree(gather, ranks(), open_all()));
  opened.places = std::move(places);
  windows_.emplace(number, std::move(opened));
  return {};
}

std::byte* Group::window_of_peer(const void* memory, Rank peer) const {
  for (const auto& [number, window] : windows_)
    if (window.memory == memory) return window.places[static_cast<std::size_t>(peer)];
  return nullptr;
}

Status Group::remove_window(const void* memory) {
  const auto found =
      std::find_if(windows_.begin(), windows_.end(), [&](const auto& w) { return w.second.memory == memory; });
  if (found == windows_.end()) return bad_input("a window is removed that was not added");
  windows_.erase(found);
  return {};
}

int Group::window_of(const void* buffer, Bytes bytes) const {
  const auto* const begin = static_cast<const std::byte*>(buffer);
  for (const auto& [number, w] : windows_)
    if (begin >= w.memory && begin + bytes <= w.memory + w.bytes) return number;
  return -1;
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
