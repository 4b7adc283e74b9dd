#include "net/tcp/tcp.h"

#include <cstdlib>

namespace weft::net::tcp {

World::World(bootstrap::Meeting meeting, Rank rank, const Options& options, Patience::Limits limits)
    : endpoint(std::move(meeting), rank, options), patience(endpoint, limits) {}

Result<void*> World::allocate(Bytes bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  if (void* p = std::aligned_alloc(kPage, std::max(size, kPage))) return p;
  return failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
}

void World::deallocate(void* memory) { std::free(memory); }

}  // namespace weft::net::tcp
