#include "net/tcp/tcp.h"

#include <cstdlib>

namespace weft::net::tcp {

namespace {

// The node that sums messages, if it is here: a member of the job behind the last rank.
std::unique_ptr<Aggregator> node_of(bootstrap::Meeting& meeting, const Options& options) {
  if (!meeting.aggregation.open()) return nullptr;
  WEFT_REQUIRE(options.fold_of != nullptr, "a node that sums needs arithmetic");
  return std::make_unique<Aggregator>(bootstrap::Meeting{.ranks = meeting.ranks,
                                                         .key = meeting.key,
                                                         .name = meeting.name,
                                                         .listener = std::move(meeting.aggregation),
                                                         .aggregation = {}},
                                      options);
}

}  // namespace

World::World(bootstrap::Meeting meeting, Rank rank, const Options& options, Patience::Limits limits)
    : aggregator(node_of(meeting, options)), endpoint(std::move(meeting), rank, options), patience(endpoint, limits) {}

Result<void*> World::allocate(Bytes bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  if (void* p = std::aligned_alloc(kPage, std::max(size, kPage))) return p;
  return failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
}

void World::deallocate(void* memory) { std::free(memory); }

}  // namespace weft::net::tcp
