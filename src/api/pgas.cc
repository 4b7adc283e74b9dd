#include "weft/pgas.h"

#include "api/pe.h"
#include "base/forks.h"

namespace weft::pgas {
namespace {

tl::unexpected<Error> no_world() { return bad_input("the world is empty: it was moved from"); }
tl::unexpected<Error> no_team() { return bad_input("the team is empty: it was moved from"); }

// What calls without a result are made of. An empty world ends the process, as any misuse does.
api::Pe& of(const std::shared_ptr<api::Pe>& pe, const char* call) {
  if (!pe) [[unlikely]]
    Space().misuse(call, "the world is empty: it was moved from");
  return *pe;
}
template <class Value>
void check_value(const Space& space, const char* call, Value value, Value last) {
  if (value > last) [[unlikely]]
    space.misuse(
        call, fmt::format("{} is no such value: there are 0 to {}", static_cast<int>(value), static_cast<int>(last)));
}

// The operation is a value in this interface, a template argument below.
template <class T>
T apply(const Space& space, AtomicOp op, const T* at, T operand, T compare, Rank rank) {
  check_value(space, "World::atomic", op, AtomicOp::kXor);
  return with_op(op, [&](auto known) { return atomic<known()>(space, "World::atomic", at, operand, compare, rank); });
}

template <class T>
void wait(const api::Pe& pe, const void* at, Compare comparison, T value) {
  constexpr const char* kCall = "World::wait_until";
  pe.space().at(kCall, at, sizeof(T), pe.rank());
  check_value(pe.space(), kCall, comparison, Compare::kLessEqual);
  wait_all<T>({static_cast<const T*>(at), 1, nullptr, comparison, &value, 0}, {pe.space(), pe.watch(), kCall});
}

}  // namespace

Rank Team::rank() const { return team_ ? team_->rank() : -1; }
Rank Team::ranks() const { return team_ ? team_->ranks() : 0; }
Rank Team::translate(Rank member, const Team& to) const {
  if (member < 0 || member >= ranks() || !to.team_) return -1;
  return to.team_->group().member(team_->group().job_rank(member));
}
Status Team::run(const Request& request) { return team_ ? team_->run(request) : Status(no_team()); }
Status Team::sync() { return team_ ? team_->barrier() : Status(no_team()); }
void Team::set_interrupt(std::function<bool()> interrupted) {
  if (team_) team_->set_interrupt(std::move(interrupted));
}

Result<World> World::from_environment(bool share_variables) {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(auto pe, api::join_pgas(settings, share_variables));
  return World(left_to_owner(std::move(pe)));
}

Result<std::vector<World>> World::threads(Rank ranks) {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(auto pes, api::open_pgas_threads(ranks, settings));
  std::vector<World> all;
  for (auto& pe : pes) all.push_back(World(left_to_owner(std::move(pe))));
  return all;
}

Rank World::rank() const { return pe_ ? pe_->rank() : -1; }
Rank World::ranks() const { return pe_ ? pe_->ranks() : 0; }

Result<void*> World::allocate(std::size_t bytes, std::size_t alignment) {
  if (!pe_) return no_world();
  if (!std::has_single_bit(alignment)) return bad_input("World::allocate: {} is no alignment", alignment);
  if (bytes > session::kAddressSpace)
    return failure(Code::kNoResources, Blame::kOperation, "World::allocate: {} bytes are more than a process can have",
                   bytes);
  return pe_->allocate("World::allocate", bytes, alignment);
}
Status World::free(void* memory) { return pe_ ? pe_->free("World::free", memory) : Status(no_world()); }
void* World::address(const void* symmetric, Rank rank) const {
  if (!pe_) return nullptr;
  return pe_->space().at("World::pointer", symmetric, 0, rank);
}

struct World::Access::Recorded {
  detail::Recording recording;
};
World::Access::Access(std::unique_ptr<Recorded> recorded) : recorded_(std::move(recorded)) {}
World::Access::Access(Access&&) noexcept = default;
World::Access& World::Access::operator=(Access&&) noexcept = default;
World::Access::~Access() = default;

namespace {

// What is recorded of an access; nothing: there is no record.
template <class Recorded>
std::unique_ptr<Recorded> access(const Space& space, const char* call, Event::Kind kind, const void* at,
                                 std::size_t bytes, Rank rank) {
  if (space.at(call, at, static_cast<Bytes>(bytes), rank) == nullptr) [[unlikely]]
    space.misuse(call, fmt::format("rank {}'s memory is not mapped here: it has no pointer", rank));
  if (space.recorder() == nullptr || bytes == 0) return nullptr;
  return std::unique_ptr<Recorded>(new Recorded{{space, kind, at, bytes, rank}});
}

}  // namespace

World::Access World::loads(const void* symmetric, std::size_t bytes, Rank rank) const {
  constexpr const char* kCall = "World::loads";
  return Access(access<Access::Recorded>(of(pe_, kCall).space(), kCall, Event::Kind::kLoad, symmetric, bytes, rank));
}
World::Access World::stores(const void* symmetric, std::size_t bytes, Rank rank) const {
  constexpr const char* kCall = "World::stores";
  return Access(access<Access::Recorded>(of(pe_, kCall).space(), kCall, Event::Kind::kStore, symmetric, bytes, rank));
}

void World::put(void* to, const void* from, std::size_t bytes, Rank rank) {
  pgas::put(of(pe_, "World::put").space(), "World::put", to, from, bytes, rank);
}
void World::get(void* to, const void* from, std::size_t bytes, Rank rank) {
  pgas::get(of(pe_, "World::get").space(), "World::get", to, from, bytes, rank);
}
void World::put_strided(void* to, const void* from, std::size_t element, std::ptrdiff_t to_stride,
                        std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  pgas::put_strided(of(pe_, "World::put_strided").space(), "World::put_strided", to, from, element, to_stride,
                    from_stride, count, rank);
}
void World::get_strided(void* to, const void* from, std::size_t element, std::ptrdiff_t to_stride,
                        std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  pgas::get_strided(of(pe_, "World::get_strided").space(), "World::get_strided", to, from, element, to_stride,
                    from_stride, count, rank);
}
void World::put_signal(void* to, const void* from, std::size_t bytes, std::uint64_t* signal, std::uint64_t value,
                       SignalOp op, Rank rank) {
  check_value(of(pe_, "World::put_signal").space(), "World::put_signal", op, SignalOp::kAdd);
  pgas::put_signal(of(pe_, "World::put_signal").space(), "World::put_signal", to, from, bytes, signal, value, op, rank);
}

std::uint32_t World::atomic_word(AtomicOp op, const std::uint32_t* at, std::uint32_t operand, std::uint32_t compare,
                                 Rank rank) {
  return apply(of(pe_, "World::atomic").space(), op, at, operand, compare, rank);
}
std::uint64_t World::atomic_word(AtomicOp op, const std::uint64_t* at, std::uint64_t operand, std::uint64_t compare,
                                 Rank rank) {
  return apply(of(pe_, "World::atomic").space(), op, at, operand, compare, rank);
}

void World::fence() { pgas::fence(of(pe_, "World::fence").space()); }
void World::quiet() { pgas::quiet(of(pe_, "World::quiet").space()); }

void World::wait_signed(const void* at, std::size_t bytes, Compare comparison, std::int64_t value) {
  if (bytes == sizeof(std::int32_t))
    wait(of(pe_, "World::wait_until"), at, comparison, static_cast<std::int32_t>(value));
  else
    wait(of(pe_, "World::wait_until"), at, comparison, value);
}
void World::wait_unsigned(const void* at, std::size_t bytes, Compare comparison, std::uint64_t value) {
  if (bytes == sizeof(std::uint32_t))
    wait(of(pe_, "World::wait_until"), at, comparison, static_cast<std::uint32_t>(value));
  else
    wait(of(pe_, "World::wait_until"), at, comparison, value);
}

Status World::barrier() {
  if (!pe_) return no_world();
  quiet();
  return pe_->everybody().barrier();
}

Team World::team() {
  return pe_ ? Team(std::shared_ptr<api::Team>(pe_, &pe_->everybody())) : Team(std::shared_ptr<api::Team>());
}

Result<std::optional<Team>> World::split(const Team& parent, Rank start, Rank stride, Rank size) {
  if (!pe_) return no_world();
  if (!parent.team_) return no_team();
  const Group group = parent.team_->group().part(start, stride, size);
  if (group.size == 0)
    return bad_input("World::split: {} members from {} on, {} apart, are not in a team of {}", size, start, stride,
                     parent.ranks());
  WEFT_TRY(auto team, pe_->split(*parent.team_, group));
  if (!team) return std::optional<Team>();
  auto both = std::make_shared<std::pair<std::shared_ptr<api::Pe>, std::shared_ptr<api::Team>>>(pe_, std::move(team));
  api::Team* const made = both->second.get();
  return std::optional<Team>(Team(std::shared_ptr<api::Team>(std::move(both), made)));  // the Pe outlives its teams
}

}  // namespace weft::pgas
