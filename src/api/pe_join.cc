#include "api/pe_join.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "api/chooser.h"
#include "api/this_machine.h"
#include "net/shm/program_data.h"

namespace weft::api {

Bytes heap_up(Bytes bytes) { return (bytes + Pe::kMostAlignment - 1) / Pe::kMostAlignment * Pe::kMostAlignment; }
std::byte* heap_up(std::byte* at) {
  return at + (heap_up(static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(at))) -
               static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(at)));
}

Result<std::byte*> map_memory(Bytes bytes) {
  void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return failure(Code::kNoResources, Blame::kProcess, "mmap of {} bytes: {}", bytes, std::strerror(errno));
  return static_cast<std::byte*>(memory);
}

Result<bool> same_everywhere(Communicator& comm, std::int64_t value) {
  std::array<std::int64_t, 2> least{value, -value};
  WEFT_CHECK(comm.all_reduce<std::int64_t>(least, least, ReduceOp::kMin));
  return least[0] == -least[1];
}

namespace {

// Address space for teams' connections, of each rank; memory only where it is touched.
Bytes team_space(Rank ranks) { return std::min(Bytes{64} << 30, 256 * net::memory::Group::bytes(ranks)); }

// Symmetric heaps of ranks that are threads, and who of them has left.
class Rooms {
 public:
  static Result<std::shared_ptr<Rooms>> open(Rank ranks, Bytes bytes) {
    WEFT_TRY(std::byte* const memory, map_memory(ranks * bytes + Pe::kMostAlignment));
    return std::shared_ptr<Rooms>(new Rooms(memory, ranks, bytes));
  }
  ~Rooms() {
    munmap(memory_, static_cast<std::size_t>(bytes_) * left_.size() + static_cast<std::size_t>(Pe::kMostAlignment));
  }
  Rooms(const Rooms&) = delete;
  Rooms& operator=(const Rooms&) = delete;

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
  WEFT_CHECK(session::check_ranks("World::threads", ranks));
  WEFT_TRY(const calibrate::Rates rates, rates_of(settings));
  WEFT_TRY(const auto machine, this_machine(rates));
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
        .commons = {.allocate = map_memory,
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
  WEFT_TRY(const calibrate::Rates rates, rates_of(settings, job->rank != 0));
  env::Settings roomy = settings;
  roomy.heap_bytes = page_up(settings.symmetric_bytes) + Pe::kMostAlignment + team_space(job->ranks) +
                     page_up(static_cast<Bytes>(net::shm::program_data().size()));
  WEFT_TRY(Joined joined, join(roomy, *job, settings.transport, rates));
  return joined.shm != nullptr ? pe_over_shm(std::move(joined), settings, share_data)
                               : pe_over_network(std::move(joined), settings, share_data);
}

}  // namespace weft::api
