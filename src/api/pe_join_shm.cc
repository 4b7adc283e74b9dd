#include "api/chooser.h"
#include "api/pe_join.h"
#include "net/shm/end_job.h"
#include "net/shm/program_data.h"

namespace weft::api {
namespace {

// Memory of every rank at the same offset of its part of the segment.
pgas::Region region_of(const net::memory::Segment& segment, Bytes offset, Bytes bytes, std::byte* own) {
  pgas::Region region{.own = own, .bytes = bytes, .mapped = {}};
  for (Rank r = 0; r < segment.ranks(); ++r) region.mapped.push_back(segment.heap(r) + offset);
  return region;
}

net::memory::Commons commons_of(net::shm::World& world) {
  const net::memory::Segment& segment = world.mapping->segment;
  const std::size_t bytes = net::memory::Segment::total_bytes(segment.ranks(), segment.heap_bytes());
  return {.base = segment.base(),
          .reach = {segment.base(), bytes},
          .allocate = [&world](Bytes size) -> Result<std::byte*> {
            WEFT_TRY(void* const memory, world.heap.allocate(size));
            return static_cast<std::byte*>(memory);
          },
          .release = [&world](std::byte* memory, Bytes) { world.deallocate(memory); },
          .has_ended = [&world](Rank peer) { return world.mapping->has_ended(peer); }};
}

// The symmetric heap. It begins where this process sees a multiple of the alignment: at an offset of each rank's own.
Result<pgas::Region> heap_of(Communicator& comm, net::shm::World& world, Bytes bytes) {
  const net::memory::Segment& segment = world.mapping->segment;
  WEFT_TRY(void* const memory, world.heap.allocate(bytes + Pe::kMostAlignment));
  pgas::Region region{.own = heap_up(static_cast<std::byte*>(memory)), .bytes = bytes, .mapped = {}};
  const std::int64_t own = region.own - segment.base();
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.ranks()));
  WEFT_CHECK(comm.all_gather<std::int64_t>({&own, 1}, all));
  for (const std::int64_t offset : all) region.mapped.push_back(segment.base() + offset);
  return region;
}

// The program's variables, in memory that peers map; nothing where the ranks' programs differ.
// Errors: kNoResources, kSystem.
Result<std::optional<pgas::Region>> share_data(Communicator& comm, net::shm::World& world) {
  const std::span<std::byte> data = net::shm::program_data();
  const auto bytes = static_cast<Bytes>(data.size());
  WEFT_TRY(const bool same, same_everywhere(comm, bytes));
  if (!same || bytes == 0) return std::nullopt;
  WEFT_TRY(void* const memory, world.allocate(bytes));
  auto* const shared = static_cast<std::byte*>(memory);
  WEFT_CHECK(net::shm::share_program_data(data, shared));
  const net::memory::Segment& segment = world.mapping->segment;
  return region_of(segment, shared - segment.heap(comm.rank()), bytes, data.data());
}

}  // namespace

Result<std::unique_ptr<Pe>> pe_over_shm(Joined joined, const env::Settings& settings, bool shares) {
  net::shm::World& world = *joined.shm;
  net::memory::Patience::Limits limits = limits_of(settings, joined.comm.ranks(), *joined.machine);
  if (!settings.timeout_given) {
    constexpr std::chrono::hours kForEver{24 * 365};
    world.patience.set_timeout(kForEver);
    limits.timeout = kForEver;
  }
  net::shm::accept_end();
  WEFT_TRY(pgas::Region heap, heap_of(joined.comm, world, page_up(settings.symmetric_bytes)));
  std::vector<pgas::Region> others;
  if (shares) {
    WEFT_TRY(auto data, share_data(joined.comm, world));
    if (data) others.push_back(std::move(*data));
    WEFT_CHECK(joined.comm.barrier());  // a peer's store before this rank's data has moved would be lost
  }
  const net::memory::Segment& segment = world.mapping->segment;
  return Pe::open(
      Pe::Parts{.comm = joined.comm,
                .commons = commons_of(world),
                .chooser = chooser_of(joined.machine, settings),
                .limits = limits,
                .heap = std::move(heap),
                .others = std::move(others),
                .end = [segment](Rank r, int status) { net::shm::end_process(segment.block(r).pid, status); },
                .trace = settings.pgas_trace});
}

}  // namespace weft::api
