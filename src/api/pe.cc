#include "api/pe.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "exec/executor.h"

namespace weft::api {

// How the first member of a group tells another where their connections lie. One per pair of ranks, in the receiver's
// memory: the sender waits for key == 0, writes the place, then the key; the receiver takes both and clears the key.
struct Pe::Mail {
  std::uint64_t key;   // of the group; 0: empty
  std::int64_t place;  // kNoPlace: the sender has no memory for it
};

namespace {

constexpr Bytes kPage = 4096;
constexpr std::int64_t kNoPlace = INT64_MIN;

Bytes mail_bytes(Rank ranks) { return (ranks * 16 + kPage - 1) / kPage * kPage; }

std::uint64_t key_of(const pgas::Group& g) {
  const auto bits = [](Rank r) { return static_cast<std::uint64_t>(static_cast<std::uint32_t>(r)); };
  return (bits(g.start) << 43 ^ bits(g.stride) << 21 ^ bits(g.size)) | std::uint64_t{1} << 63;
}

}  // namespace

Pe::Pe(Parts parts)
    : keeps_(std::move(parts.keeps)),
      commons_(std::move(parts.commons)),
      chooser_(std::move(parts.chooser)),
      end_(std::move(parts.end)),
      limits_(parts.limits),
      heap_region_(std::move(parts.heap)),
      space_(parts.comm.rank(), parts.comm.ranks()),
      heap_(mail_bytes(parts.comm.ranks()), heap_region_.bytes) {
  static_assert(sizeof(Mail) == 16);
  space_.add(heap_region_);
  for (pgas::Region& region : parts.others) space_.add(std::move(region));
  watch_.spins = limits_.spins;
  watch_.trouble = [ended = commons_.has_ended, ranks = ranks(), self = rank()]() -> std::string {
    for (Rank r = 0; r < ranks; ++r)
      if (r != self && ended(r)) return fmt::format("PE {} has ended", r);
    return {};
  };
  everybody_ = std::make_shared<Team>(pgas::Group{0, 1, ranks()}, rank(), space_, std::move(parts.comm));
}

Pe::~Pe() = default;

void Pe::end_job(int status) {
  std::fflush(nullptr);
  for (Rank r = 0; r < ranks() && end_; ++r)
    if (r != rank()) end_(r, status);
  std::_Exit(status);
}

Pe::Mail& Pe::mail(Rank at, Rank from) const {
  return *reinterpret_cast<Mail*>(heap_region_.mapped[static_cast<std::size_t>(at)] +
                                  static_cast<std::size_t>(from) * sizeof(Mail));
}

Result<bool> Pe::agree(const char* call, const char* what, std::int64_t value, bool fine) {
  std::array<std::int64_t, 3> least{value, -value, fine};
  WEFT_CHECK(everybody_->run({.collective = Collective::kAllReduce,
                              .in = least.data(),
                              .out = least.data(),
                              .count = least.size(),
                              .type = DataType::kInt64,
                              .op = ReduceOp::kMin}));
  if (least[0] != -least[1])
    space_.misuse(
        call, fmt::format("the PEs disagree on the {}: {} here, {} to {} elsewhere", what, value, least[0], -least[1]));
  return least[2] != 0;
}

Result<void*> Pe::allocate(const char* call, std::size_t bytes, std::size_t alignment) {
  std::optional<Bytes> offset;
  const auto size = static_cast<Bytes>(std::min<std::size_t>(bytes, INT64_MAX / 2));
  {
    const std::lock_guard guard(mutex_);
    if (alignment <= static_cast<std::size_t>(kMostAlignment))
      offset = heap_.allocate(size, static_cast<Bytes>(alignment));
  }
  const bool populated = offset && net::memory::populate(heap_region_.own + *offset, std::max<Bytes>(size, 1));
  WEFT_TRY(const bool fine, agree(call, "size", size, populated));
  if (fine) return heap_region_.own + *offset;
  const std::lock_guard guard(mutex_);
  if (offset) heap_.release(*offset);
  return failure(
      Code::kNoResources, Blame::kOperation, "{} of {} bytes: {}", call, bytes,
      offset ? "a PE has no memory left (/dev/shm)" : "the symmetric heap is full; raise WEFT_SYMMETRIC_SIZE");
}

Status Pe::free(const char* call, void* memory) {
  const Bytes offset = static_cast<std::byte*>(memory) - heap_region_.own;
  WEFT_TRY(const bool fine, agree(call, "offset of the memory", offset, true));
  (void)fine;
  const std::lock_guard guard(mutex_);
  if (!heap_.release(offset))
    space_.misuse(call,
                  fmt::format("{} is not the start of an allocation in use: freed twice, or never allocated", memory));
  return {};
}

Result<void*> Pe::reallocate(const char* call, void* memory, std::size_t bytes) {
  std::optional<Bytes> before;
  {
    const std::lock_guard guard(mutex_);
    before = heap_.size_of(static_cast<std::byte*>(memory) - heap_region_.own);
  }
  if (!before) space_.misuse(call, fmt::format("{} is not the start of an allocation in use", memory));
  WEFT_TRY(void* const fresh, allocate(call, bytes, 1));
  std::memcpy(fresh, memory, std::min(bytes, static_cast<std::size_t>(*before)));
  WEFT_CHECK(free(call, memory));
  return fresh;
}

// Where the group's connections lie: the first member gives the memory and tells the others.
Result<std::byte*> Pe::links_of(const pgas::Group& group) {
  const std::uint64_t key = key_of(group);
  const auto cell = [](auto& field) { return std::atomic_ref(field); };
  pgas::Idler idler(space_, watch_, "making a team");
  std::int64_t place = kNoPlace;
  if (group.member(rank()) != 0) {
    Mail& mine = mail(rank(), group.start);
    while (cell(mine.key).load(std::memory_order_acquire) != key) idler.pause();
    place = mine.place;
    cell(mine.key).store(0, std::memory_order_release);
  } else {
    {
      const std::lock_guard guard(mutex_);
      if (const auto links = commons_.allocate(net::memory::Group::bytes(group.size))) place = *links - commons_.base;
    }
    for (Rank member = 1; member < group.size; ++member) {
      Mail& theirs = mail(group.job_rank(member), rank());
      while (cell(theirs.key).load(std::memory_order_acquire) != 0) idler.pause();
      theirs.place = place;
      cell(theirs.key).store(key, std::memory_order_release);
    }
  }
  if (place != kNoPlace) return commons_.base + place;
  return failure(Code::kNoResources, Blame::kOperation, "PE {} has no memory left for another team", group.start);
}

Result<std::shared_ptr<Team>> Pe::split(Team& parent, const pgas::Group& group) {
  Result<std::shared_ptr<Team>> made = std::shared_ptr<Team>();
  if (group.member(rank()) >= 0) made = make_team(group);
  std::int32_t fine = made ? 1 : 0;
  WEFT_CHECK(parent.run({.collective = Collective::kAllReduce,
                         .in = &fine,
                         .out = &fine,
                         .count = 1,
                         .type = DataType::kInt32,
                         .op = ReduceOp::kMin}));
  if (fine == 1 || !made) return made;
  return failure(Code::kNoResources, Blame::kOperation, "another PE has no memory left for a team");
}

Result<std::shared_ptr<Team>> Pe::make_team(const pgas::Group& group) {
  const Rank member = group.member(rank());
  WEFT_TRY(std::byte* const links, links_of(group));
  const auto job_rank = [group](Rank m) { return group.job_rank(m); };
  auto world = std::make_unique<net::memory::Group>(commons_, links, member, group.size, limits_, job_rank);
  auto executor = std::make_unique<exec::WorldExecutor<net::memory::Group>>(std::move(world));
  std::shared_ptr<void> shares;
  if (member == 0)  // the giver waits until nobody looks at the memory any more
    shares = std::shared_ptr<void>(nullptr, [this, links, group, job_rank](void*) {
      pgas::Idler idler(space_, {.spins = watch_.spins, .trouble = {}}, "ending a team");
      while (!net::memory::alone(commons_, links, 0, group.size, job_rank)) idler.pause();
      const std::lock_guard guard(mutex_);
      commons_.release(links, net::memory::Group::bytes(group.size));
    });
  return std::make_shared<Team>(
      group, member, space_,
      Communicator(std::make_shared<session::Session>(std::move(executor), group.size, chooser_)), std::move(shares));
}

}  // namespace weft::api
