#pragma once

#include <map>
#include <mutex>

#include "base/forks.h"
#include "move/transfer/peer.h"
#include "move/transfer/region_numbers.h"
#include "move/transfer/server.h"
#include "move/transfer/work.h"

namespace weft::transfer::detail {

// What an agent has. Calls of the agent hold `mutex`; the server's thread sees `regions` and `segment` only.
struct AgentState {
  const Owner owner;
  Options options;
  MeetOptions meeting;
  net::link::Digest layout{};
  UniqueFd control_fd;
  Segment segment;
  FreeList page_words{0, 0, 1};
  Regions regions;
  std::map<std::uintptr_t, const Region*> by_address;  // those of memory
  std::unique_ptr<FileIo> file_io;                     // from the first file on
  std::unique_ptr<ObjectIo> objects;                   // from the first object on
  std::shared_ptr<Gpu> gpu;                            // from the first memory of a GPU on
  RegionNumbers numbers;
  std::unique_ptr<Server> server;  // ends before what stands above it
  std::shared_ptr<Peer> self;
  std::map<std::string, std::shared_ptr<Peer>> peers;
  std::vector<std::weak_ptr<Work>> works;
  std::mutex mutex;

  PinWord& pin_of(std::uint32_t slot) const { return segment.slot(slot).pin; }
  bool ended(std::uint32_t slot) const {
    const std::uint64_t owner = segment.slot(slot).owner.load();
    return slot > kOwnSlot && (owner == 0 || process_ended(owner));
  }
  Grace begin_grace(std::uint32_t region) const {
    return Grace::begin(kSlots, region, [this](std::uint32_t slot) -> PinWord& { return pin_of(slot); });
  }
  bool over(Grace& grace) const {
    return grace.over([this](std::uint32_t slot) -> PinWord& { return pin_of(slot); },
                      [this](std::uint32_t slot) { return ended(slot); });
  }
  Result<std::shared_ptr<Region>> region(const Registration& known) const {
    auto found = regions.find(known.region);
    if (found == nullptr) return bad_input("region {} is not registered", known.region);
    return found;
  }
  Result<std::shared_ptr<Peer>> peer(const std::string& name) const {
    if (name.empty()) return self;
    const auto found = peers.find(name);
    if (found == peers.end())
      return failure(Code::kNotFound, Blame::kInput, "no peer is called '{}': load its metadata first", name);
    return found->second;
  }
  Result<std::shared_ptr<Gpu>> gpus();
  Status check_new(const void* data, Bytes bytes, Bytes page_bytes) const;
  Result<Registration> add(std::shared_ptr<Region> region);
  void drain(Region& region) const;
  void sweep() const;
};

inline tl::unexpected<Error> forked_agent() {
  return bad_input("this process was forked after the agent had been opened: it needs one of its own");
}
// Whether a method can use its agent. Errors (bad input): it was moved from; it is the parent's.
inline Status usable(const std::unique_ptr<AgentState>& state) {
  if (state == nullptr) return bad_input("the agent is empty: it was moved from");
  if (state->owner.inherited()) [[unlikely]]
    return forked_agent();
  return {};
}

}  // namespace weft::transfer::detail
