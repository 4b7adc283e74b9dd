#include "net/messages/world.h"

#include <cstdlib>

#include "exec/fabric/real.h"

namespace weft::net::messages {

static_assert(fabric::RealWorld<World>);

fabric::Capabilities capabilities(std::string_view name) {
  return {.name = name,
          .max_strands = kStrands,
          .max_slice = kSlotBytes,
          .scratch_bytes = static_cast<Bytes>(kScratchBytes),
          .simple_under_way = kMostUnderWay,
          .small_under_way = kSmallUnderWay};
}

World::World(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank, WaitPolicy::Limits limits,
             const Endpoint::MakeCarrier& make_carrier, std::unique_ptr<Aggregator> node)
    : aggregator(std::move(node)),
      endpoint(capabilities, std::move(meeting), rank, limits.timeout, make_carrier),
      wait_policy(endpoint, limits) {}

World::World(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank, WaitPolicy::Limits limits,
             Branch branch)
    : endpoint(capabilities, std::move(meeting), rank, limits.timeout, std::move(branch)),
      wait_policy(endpoint, limits) {}

Result<void*> World::allocate(Bytes bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  if (void* p = std::aligned_alloc(kPage, std::max(size, kPage))) return p;
  return failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
}

void World::deallocate(void* memory) { std::free(memory); }

}  // namespace weft::net::messages
