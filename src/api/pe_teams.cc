#include "api/pe.h"
#include "base/forks.h"
#include "exec/executor.h"

// How ranks of a job become a team: of a group's members only those take part. Where all map the same memory, the first
// gives room for connections in it; else it opens a place to meet.
namespace weft::api {
namespace {

constexpr const char* kCall = "making a team";
constexpr std::int64_t kNoPlace = INT64_MIN;

std::uint64_t key_of(const pgas::Group& g) {
  const auto bits = [](Rank r) { return static_cast<std::uint64_t>(static_cast<std::uint32_t>(r)); };
  return (bits(g.start) << 43 ^ bits(g.stride) << 21 ^ bits(g.size)) | std::uint64_t{1} << 63;
}

}  // namespace

void Pe::send_setup(Rank member, const TeamSetup& text) {
  TeamSetup* const slot = setup_slot(rank());
  pgas::Idler idler(space_, watch_, kCall);
  while (pgas::atomic<pgas::AtomicOp::kFetch>(space_, kCall, &slot->key, std::uint64_t{0}, std::uint64_t{0}, member) !=
         0)
    idler.pause();
  constexpr std::size_t kKey = sizeof text.key;
  pgas::put(space_, kCall, reinterpret_cast<std::byte*>(slot) + kKey, reinterpret_cast<const std::byte*>(&text) + kKey,
            sizeof text - kKey, member);
  pgas::fence(space_);
  pgas::atomic<pgas::AtomicOp::kSet>(space_, kCall, &slot->key, text.key, std::uint64_t{0}, member);
}

Pe::TeamSetup Pe::receive_setup(Rank from, std::uint64_t key) {
  TeamSetup* const slot = setup_slot(from);
  pgas::Idler idler(space_, watch_, kCall);
  while (pgas::look(&slot->key) != key) idler.pause();
  const TeamSetup text = *slot;
  std::atomic_ref(slot->key).store(0, std::memory_order_release);
  return text;
}

pgas::Group Pe::neighbours() const {
  std::vector<Rank> near;
  for (Rank r = 0; r < ranks(); ++r)
    if (heap_region_.mapped[static_cast<std::size_t>(r)] != nullptr) near.push_back(r);
  const auto size = static_cast<Rank>(near.size());
  const pgas::Group group{near[0], size > 1 ? near[1] - near[0] : 1, size};
  for (Rank m = 0; m < size; ++m)
    if (group.job_rank(m) != near[static_cast<std::size_t>(m)]) return {rank(), 1, 1};
  return group;
}

Result<std::shared_ptr<Team>> Pe::make_team(const pgas::Group& group) {
  return space_.agent() == nullptr ? make_team_in_memory(group) : make_team_by_meeting(group);
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

Result<std::shared_ptr<Team>> Pe::make_team_in_memory(const pgas::Group& group) {
  const Rank member = group.member(rank());
  TeamSetup text{.key = key_of(group), .place = kNoPlace, .id = {}};
  if (member == 0) {
    {
      const std::lock_guard guard(mutex_);
      if (const auto links = commons_.allocate(net::memory::Group::bytes(group.size)))
        text.place = *links - commons_.base;
    }
    for (Rank other = 1; other < group.size; ++other) send_setup(group.job_rank(other), text);
  } else {
    text = receive_setup(group.start, text.key);
  }
  if (text.place == kNoPlace)
    return failure(Code::kNoResources, Blame::kOperation, "PE {} has no memory left for another team", group.start);
  std::byte* const links = commons_.base + text.place;
  const auto job_rank = [group](Rank m) { return group.job_rank(m); };
  auto world = std::make_unique<net::memory::Group>(commons_, links, member, group.size, limits_, job_rank);
  auto executor = std::make_unique<exec::WorldExecutor<net::memory::Group>>(std::move(world));
  std::shared_ptr<void> shares;
  if (member == 0)  // the giver waits until nobody looks at the memory any more
    shares = std::shared_ptr<void>(nullptr, [this, links, group, job_rank](void*) {
      const pgas::Watch for_ever{.spins = watch_.spins, .trouble = {}};
      pgas::Idler idler(space_, for_ever, "ending a team");
      while (!net::memory::alone(commons_, links, 0, group.size, job_rank)) idler.pause();
      const std::lock_guard guard(mutex_);
      commons_.release(links, net::memory::Group::bytes(group.size));
    });
  return make_owned<Team>(group, member, space_,
                          Communicator(make_owned<session::Session>(std::move(executor), group.size, chooser_)),
                          std::move(shares));
}

Result<std::shared_ptr<Team>> Pe::make_team_by_meeting(const pgas::Group& group) {
  const Rank member = group.member(rank());
  const ConnectOptions options{.interface = interface_, .timeout = limits_.timeout};
  TeamSetup text{.key = key_of(group), .place = kNoPlace, .id = {}};
  std::optional<MeetingPlace> place;
  if (member == 0) {
    if (auto opened = MeetingPlace::open(group.size, options)) {
      text.id = opened->id();
      place = std::move(*opened);
    }
    for (Rank other = 1; other < group.size; ++other) send_setup(group.job_rank(other), text);
  } else {
    text = receive_setup(group.start, text.key);
  }
  if (text.id == UniqueId{})
    return failure(Code::kNoResources, Blame::kOperation, "PE {} cannot open a place to meet", group.start);
  WEFT_TRY(Communicator comm, Communicator::connect(text.id, member, group.size, options));
  return make_owned<Team>(group, member, space_, std::move(comm));
}

}  // namespace weft::api
