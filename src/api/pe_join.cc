#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "api/chooser.h"
#include "api/connect.h"
#include "api/open.h"
#include "api/pe.h"
#include "api/this_machine.h"
#include "net/shm/end_job.h"
#include "net/shm/program_data.h"

namespace weft::api {
namespace {

constexpr Bytes kPage = 4096;
Bytes page_up(Bytes bytes) { return (bytes + kPage - 1) / kPage * kPage; }
Bytes heap_up(Bytes bytes) { return (bytes + Pe::kMostAlignment - 1) / Pe::kMostAlignment * Pe::kMostAlignment; }
std::byte* heap_up(std::byte* at) {
  return at + (heap_up(static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(at))) -
               static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(at)));
}

// Address space for teams' connections, of each rank; memory only where it is touched.
Bytes team_space(Rank ranks) { return std::min(Bytes{64} << 30, 256 * net::memory::Group::bytes(ranks)); }

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
  const auto bytes = static_cast<std::int64_t>(data.size());
  std::array<std::int64_t, 2> least{bytes, -bytes};
  WEFT_CHECK(comm.all_reduce<std::int64_t>(least, least, ReduceOp::kMin));
  if (least[0] != -least[1] || bytes == 0) return std::nullopt;
  WEFT_TRY(void* const memory, world.allocate(bytes));
  auto* const shared = static_cast<std::byte*>(memory);
  WEFT_CHECK(net::shm::share_program_data(data, shared));
  const net::memory::Segment& segment = world.mapping->segment;
  return region_of(segment, shared - segment.heap(comm.rank()), bytes, data.data());
}

Result<std::unique_ptr<Pe>> over_shm(Joined joined, const env::Settings& settings, bool shares) {
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

// Symmetric heaps of ranks that are threads, and who of them has left.
class Rooms {
 public:
  static Result<std::shared_ptr<Rooms>> open(Rank ranks, Bytes bytes) {
    WEFT_TRY(std::byte* const memory, map(ranks * bytes + Pe::kMostAlignment));
    return std::shared_ptr<Rooms>(new Rooms(memory, ranks, bytes));
  }
  ~Rooms() {
    munmap(memory_, static_cast<std::size_t>(bytes_) * left_.size() + static_cast<std::size_t>(Pe::kMostAlignment));
  }
  Rooms(const Rooms&) = delete;
  Rooms& operator=(const Rooms&) = delete;

  static Result<std::byte*> map(Bytes bytes) {
    void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return failure(Code::kNoResources, Blame::kProcess, "mmap of {} bytes: {}", bytes, std::strerror(errno));
    return static_cast<std::byte*>(memory);
  }
  std::byte* heap(Rank r) const { return heap_up(memory_) + r * bytes_; }
  bool has_left(Rank r) const { return left_[static_cast<std::size_t>(r)].load(std::memory_order_acquire); }
  void leave(Rank r) { left_[static_cast<std::size_t>(r)].store(true, std::memory_order_release); }

 private:
  Rooms(std::byte* memory, Rank ranks, Bytes bytes)
      : memory_(memory), bytes_(bytes), left_(static_cast<std::size_t>(ranks)) {}
  std::byte* memory_;
  Bytes bytes_;
  std::vector<std::atomic<bool>> left_;
};

}  // namespace

Result<std::vector<std::unique_ptr<Pe>>> open_pgas_threads(Rank ranks, const env::Settings& settings,
                                                           std::vector<pgas::Region> others) {
  if (ranks < 1) return bad_input("{} ranks", ranks);
  WEFT_TRY(const calibrate::Rates rates, rates_of(settings));
  WEFT_TRY(auto view, this_machine(rates));
  const auto machine = std::make_shared<cost::MachineView>(std::move(view));
  WEFT_TRY(auto comms, open_threads(ranks, settings, rates, machine));
  const Bytes bytes = heap_up(settings.symmetric_bytes);
  WEFT_TRY(const auto rooms, Rooms::open(ranks, bytes));
  std::vector<std::unique_ptr<Pe>> all;
  for (Communicator& comm : comms) {
    const Rank self = comm.rank();
    pgas::Region heap{.own = rooms->heap(self), .bytes = bytes, .mapped = {}};
    for (Rank r = 0; r < ranks; ++r) heap.mapped.push_back(rooms->heap(r));
    Pe::Parts parts{
        .comm = std::move(comm),
        .commons = {.allocate = Rooms::map,
                    .release = [](std::byte* memory, Bytes size) { munmap(memory, static_cast<std::size_t>(size)); },
                    .has_ended = [rooms](Rank r) { return rooms->has_left(r); }},
        .chooser = chooser_of(machine, settings),
        .limits = limits_of(settings, ranks, *machine),
        .heap = std::move(heap),
        .others = others,
        .end = {},
        .trace = settings.pgas_trace,
        .keeps = std::shared_ptr<void>(nullptr, [rooms, self](void*) { rooms->leave(self); })};
    WEFT_TRY(auto pe, Pe::open(std::move(parts)));
    all.push_back(std::move(pe));
  }
  return all;
}

Result<std::unique_ptr<Pe>> join_pgas(const env::Settings& settings, bool share_data) {
  WEFT_TRY(const auto job, net::bootstrap::job_of(settings));
  if (!job) {
    std::vector<pgas::Region> others;
    if (const auto data = net::shm::program_data(); share_data && !data.empty())
      others.push_back({.own = data.data(), .bytes = static_cast<Bytes>(data.size()), .mapped = {data.data()}});
    WEFT_TRY(auto alone, open_pgas_threads(1, settings, std::move(others)));
    return std::move(alone.front());
  }
  WEFT_TRY(const calibrate::Rates rates, rates_of(settings));
  env::Settings roomy = settings;
  roomy.heap_bytes = page_up(settings.symmetric_bytes) + Pe::kMostAlignment + team_space(job->ranks) +
                     page_up(static_cast<Bytes>(net::shm::program_data().size()));
  WEFT_TRY(Joined joined, join(roomy, *job, settings.transport, rates));
  if (joined.shm == nullptr)
    return failure(Code::kUnsupported, Blame::kProcess,
                   "one-sided operations need ranks that share memory; these are joined by {}", joined.transport);
  return over_shm(std::move(joined), settings, share_data);
}

}  // namespace weft::api
