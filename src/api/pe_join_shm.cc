#include <numeric>

#include "api/chooser.h"
#include "api/pe_join.h"
#include "net/shm/end_job.h"
#include "net/shm/program_data.h"

namespace weft::api {
namespace {

// Memory of every rank, which knows its own as `own` and shares it at `shared`.
Result<pgas::Region> region_among(const Neighbours& near, Communicator& comm, std::byte* own, const std::byte* shared,
                                  Bytes bytes) {
  std::byte* const base = near.world.endpoint.segment().base();
  const std::int64_t offset = shared - base;
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.ranks()));
  WEFT_CHECK(comm.all_gather<std::int64_t>({&offset, 1}, all));
  pgas::Region region{.own = own, .bytes = bytes, .mapped = {}};
  region.mapped.resize(all.size());
  for (const Rank r : near.members)
    region.mapped[static_cast<std::size_t>(r)] = base + all[static_cast<std::size_t>(r)];
  return region;
}

net::memory::Commons commons_of(net::shm::World& world) {
  return {.base = world.endpoint.segment().base(),
          .reach = world.share->mapping().memory(),
          .allocate = [&world](Bytes size) -> Result<std::byte*> {
            WEFT_TRY(void* const memory, world.allocate_unpopulated(size));
            return static_cast<std::byte*>(memory);
          },
          .release = [&world](std::byte* memory, Bytes) { world.deallocate(memory); },
          .has_ended = world.wait_policy.has_ended()};
}

// It begins where this process sees a multiple of the alignment: at an offset of each rank's own.
Result<pgas::Region> heap_among(const Neighbours& near, Communicator& comm, Bytes bytes) {
  WEFT_TRY(void* const memory, near.world.allocate_unpopulated(bytes + Pe::kMostAlignment));
  std::byte* const own = heap_up(static_cast<std::byte*>(memory));
  return region_among(near, comm, own, own, bytes);
}

Result<std::optional<pgas::Region>> data_among(const Neighbours& near, Communicator& comm) {
  const std::span<std::byte> data = net::shm::program_data();
  const auto bytes = static_cast<Bytes>(data.size());
  WEFT_TRY(const bool same, same_everywhere(comm, bytes));
  if (!same || bytes == 0) return std::nullopt;
  WEFT_TRY(void* const memory, near.world.allocate(bytes));
  auto* const shared = static_cast<std::byte*>(memory);
  WEFT_CHECK(net::shm::share_program_data(data, shared));
  WEFT_TRY(auto region, region_among(near, comm, data.data(), shared, bytes));
  WEFT_CHECK(comm.barrier());  // a peer's store before this rank's data has moved would be lost
  return region;
}

}  // namespace

Result<Symmetric> shared_memory(const Neighbours& near, Communicator& comm, Bytes bytes, bool share_data) {
  WEFT_TRY(auto heap, heap_among(near, comm, bytes));
  Symmetric memory{.heap = std::move(heap)};
  if (!share_data) return memory;
  WEFT_TRY(auto data, data_among(near, comm));
  if (data) memory.others.push_back(std::move(*data));
  return memory;
}

Result<std::unique_ptr<Pe>> pe_over_shm(Joined joined, const env::Settings& settings, bool shares) {
  net::shm::World& world = *joined.shm;
  const net::memory::WaitPolicy::Limits limits = patient_limits(joined, settings, world.wait_policy);
  net::shm::accept_end();
  Neighbours all{world, std::vector<Rank>(static_cast<std::size_t>(joined.comm.ranks()))};
  std::iota(all.members.begin(), all.members.end(), 0);
  WEFT_TRY(Symmetric memory, shared_memory(all, joined.comm, page_up(settings.symmetric_bytes), shares));
  return Pe::open(Pe::Parts{
      .comm = joined.comm,
      .commons = commons_of(world),
      .chooser = chooser_of(joined.machine, settings),
      .limits = limits,
      .heap = std::move(memory.heap),
      .others = std::move(memory.others),
      .end = [share = world.share, members = world.members](
                 Rank r, int status) { share->mapping().end_process(members[static_cast<std::size_t>(r)], status); },
      .trace = settings.pgas_trace});
}

}  // namespace weft::api
