#include "net/threads/threads.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "exec/fabric/real.h"

namespace weft::net::threads {

static_assert(fabric::RealWorld<World> && fabric::LoadsPeers<World>);

class Room {
 public:
  static Result<std::shared_ptr<Room>> open(Rank ranks) {
    const std::size_t bytes = memory::Segment::total_bytes(ranks, 0);
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
      return failure(Code::kNoResources, Blame::kProcess, "mmap of {} bytes: {}", bytes, std::strerror(errno));
    return std::shared_ptr<Room>(new Room(memory::Segment(static_cast<std::byte*>(base), ranks, 0), bytes));
  }
  ~Room() { munmap(segment.base(), bytes_); }
  // The room beside this one that has this name; made by the first of `ranks` who ask, forgotten with the last.
  Result<std::shared_ptr<Room>> next(const std::string& name, Rank ranks) {
    const std::lock_guard guard(lock_);
    auto& [room, asked] = beside_[name];
    if (!room) {
      WEFT_TRY(room, open(ranks));
    }
    auto found = room;
    if (++asked == ranks) beside_.erase(name);
    return found;
  }

  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  const memory::Segment segment;

 private:
  Room(memory::Segment s, std::size_t bytes) : segment(s), bytes_(bytes) {}
  std::size_t bytes_;
  std::mutex lock_;
  std::map<std::string, std::pair<std::shared_ptr<Room>, Rank>> beside_;
};

World::World(std::shared_ptr<Room> shared, Rank rank, memory::WaitPolicy::Limits limits)
    : room(std::move(shared)),
      endpoint(room->segment, rank, true, "threads"),
      wait_policy(room->segment, rank, limits, [segment = room->segment](Rank peer) {
        return segment.block(peer).state.load(std::memory_order_acquire) == memory::RankState::kLeft;
      }) {
  room->segment.block(rank).pid.store(getpid(), std::memory_order_relaxed);
  room->segment.block(rank).state.store(memory::RankState::kPresent, std::memory_order_release);
}

World::~World() {
  room->segment.block(endpoint.rank()).state.store(memory::RankState::kLeft, std::memory_order_release);
}

Result<std::unique_ptr<World>> World::move(const std::string& name, Rank rank, Rank ranks,
                                           memory::WaitPolicy::Limits limits) const {
  WEFT_TRY(auto next, room->next(name, ranks));
  return std::make_unique<World>(std::move(next), rank, limits);
}

Result<void*> World::allocate(Bytes bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  if (void* p = std::aligned_alloc(kPage, std::max(size, kPage))) return p;
  return failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
}

void World::deallocate(void* memory) { std::free(memory); }

Result<std::vector<std::unique_ptr<World>>> open(Rank ranks, memory::WaitPolicy::Limits limits) {
  WEFT_TRY(auto room, Room::open(ranks));
  std::vector<std::unique_ptr<World>> worlds;
  for (Rank r = 0; r < ranks; ++r) worlds.push_back(std::make_unique<World>(room, r, limits));
  return worlds;
}

}  // namespace weft::net::threads
