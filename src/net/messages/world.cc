#include "net/messages/world.h"

#include <cstdlib>

#include "base/check.h"

namespace weft::net::messages {

namespace {

// The node that sums messages, if it is here: a member of the job behind the last rank.
std::unique_ptr<Aggregator> node_of(const fabric::Capabilities& capabilities, bootstrap::Meeting& meeting,
                                    std::chrono::milliseconds timeout, const Endpoint::MakeCarrier& make_carrier,
                                    Aggregator::FoldOf fold_of) {
  if (!meeting.aggregation.open()) return nullptr;
  WEFT_REQUIRE(fold_of != nullptr, "a node that sums needs arithmetic");
  const auto number = static_cast<Rank>(meeting.ranks.size());
  bootstrap::Meeting own{.ranks = meeting.ranks,
                         .key = meeting.key,
                         .name = meeting.name,
                         .listener = std::move(meeting.aggregation),
                         .aggregation = {}};
  return std::make_unique<Aggregator>(capabilities, std::move(own), number, timeout, make_carrier, fold_of);
}

}  // namespace

World::World(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank, Patience::Limits limits,
             const Endpoint::MakeCarrier& make_carrier, Aggregator::FoldOf fold_of)
    : aggregator(node_of(capabilities, meeting, limits.timeout, make_carrier, fold_of)),
      endpoint(capabilities, std::move(meeting), rank, limits.timeout, make_carrier),
      patience(endpoint, limits) {}

Result<void*> World::allocate(Bytes bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  if (void* p = std::aligned_alloc(kPage, std::max(size, kPage))) return p;
  return failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
}

void World::deallocate(void* memory) { std::free(memory); }

}  // namespace weft::net::messages
