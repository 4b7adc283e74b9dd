#include "net/memory/group.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "exec/fabric/real.h"

namespace weft::net::memory {

static_assert(fabric::GrowsMemory<Group> && fabric::LoadsPeers<Group>);

Group::Group(const Commons& commons, std::byte* links, Rank rank, Rank ranks, WaitPolicy::Limits limits,
             std::function<Rank(Rank)> job_rank)
    : endpoint(Segment(links, ranks, 0), rank, commons.reach, commons.reach, "group"),
      wait_policy(
          endpoint.segment(), rank, limits,
          [segment = endpoint.segment(), ended = commons.has_ended, job_rank = std::move(job_rank)](Rank member) {
            return segment.block(member).state.load(std::memory_order_acquire) == RankState::kLeft ||
                   ended(job_rank(member));
          }),
      allocate_(commons.allocate),
      release_(commons.release) {
  RankBlock& self = endpoint.segment().block(rank);
  self.pid.store(getpid(), std::memory_order_relaxed);
  self.state.store(RankState::kPresent, std::memory_order_release);
}

Group::~Group() { endpoint.segment().block(endpoint.rank()).state.store(RankState::kLeft, std::memory_order_release); }

Result<void*> Group::allocate(Bytes) {
  return failure(Code::kUnsupported, Blame::kOperation, "memory is the job's, not a group's");
}

Result<void*> Group::allocate_beyond(Bytes bytes) {
  WEFT_TRY(std::byte* const memory, allocate_(bytes));
  if (populate(memory, bytes)) return memory;
  release_(memory, bytes);
  return failure(Code::kNoResources, Blame::kOperation, "/dev/shm has no {} left", format_bytes(bytes));
}

bool alone(const Commons& commons, std::byte* links, Rank rank, Rank ranks, const std::function<Rank(Rank)>& job_rank) {
  const Segment segment(links, ranks, 0);
  for (Rank member = 0; member < ranks; ++member)
    if (member != rank && segment.block(member).state.load(std::memory_order_acquire) != RankState::kLeft &&
        !commons.has_ended(job_rank(member)))
      return false;
  return true;
}

bool populate(void* memory, Bytes bytes) {
  constexpr std::uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(memory) + static_cast<std::uintptr_t>(bytes);
  return madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

}  // namespace weft::net::memory
