#include "weft/pgas.h"

#include "api/pe.h"

namespace weft::pgas {
namespace {

// The operation is a value in this interface, a template argument below.
template <class T>
T apply(const Space& space, AtomicOp op, const T* at, T operand, T compare, Rank rank) {
  return with_op(op, [&](auto known) { return atomic<known()>(space, "World::atomic", at, operand, compare, rank); });
}

template <class T>
void wait(const api::Pe& pe, const void* at, Compare comparison, T value) {
  constexpr const char* kCall = "World::wait_until";
  pe.space().at(kCall, at, sizeof(T), pe.rank());
  wait_all<T>({static_cast<const T*>(at), 1, nullptr, comparison, &value, 0}, {pe.space(), pe.watch(), kCall});
}

}  // namespace

Rank Team::rank() const { return team_->rank(); }
Rank Team::ranks() const { return team_->ranks(); }
Rank Team::translate(Rank member, const Team& to) const {
  if (member < 0 || member >= ranks()) return -1;
  return to.team_->group().member(team_->group().job_rank(member));
}
Status Team::run(const Request& request) { return team_->run(request); }
Status Team::sync() { return team_->barrier(); }
void Team::set_interrupt(std::function<bool()> interrupted) { team_->set_interrupt(std::move(interrupted)); }

Result<World> World::from_environment(bool share_variables) {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(auto pe, api::join_pgas(settings, share_variables));
  return World(std::move(pe));
}

Result<std::vector<World>> World::threads(Rank ranks) {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(auto pes, api::open_pgas_threads(ranks, settings));
  std::vector<World> all;
  for (auto& pe : pes) all.push_back(World(std::move(pe)));
  return all;
}

Rank World::rank() const { return pe_->rank(); }
Rank World::ranks() const { return pe_->ranks(); }

Result<void*> World::allocate(std::size_t bytes, std::size_t alignment) {
  if (!std::has_single_bit(alignment)) return bad_input("World::allocate: {} is no alignment", alignment);
  return pe_->allocate("World::allocate", bytes, alignment);
}
Status World::free(void* memory) { return pe_->free("World::free", memory); }
void* World::address(const void* symmetric, Rank rank) const {
  return pe_->space().at("World::pointer", symmetric, 0, rank);
}

void World::put(void* to, const void* from, std::size_t bytes, Rank rank) {
  pgas::put(pe_->space(), "World::put", to, from, bytes, rank);
}
void World::get(void* to, const void* from, std::size_t bytes, Rank rank) {
  pgas::get(pe_->space(), "World::get", to, from, bytes, rank);
}
void World::put_strided(void* to, const void* from, std::size_t element, std::ptrdiff_t to_stride,
                        std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  pgas::put_strided(pe_->space(), "World::put_strided", to, from, element, to_stride, from_stride, count, rank);
}
void World::get_strided(void* to, const void* from, std::size_t element, std::ptrdiff_t to_stride,
                        std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  pgas::get_strided(pe_->space(), "World::get_strided", to, from, element, to_stride, from_stride, count, rank);
}
void World::put_signal(void* to, const void* from, std::size_t bytes, std::uint64_t* signal, std::uint64_t value,
                       SignalOp op, Rank rank) {
  pgas::put_signal(pe_->space(), "World::put_signal", to, from, bytes, signal, value, op, rank);
}

std::uint32_t World::atomic_word(AtomicOp op, const std::uint32_t* at, std::uint32_t operand, std::uint32_t compare,
                                 Rank rank) {
  return apply(pe_->space(), op, at, operand, compare, rank);
}
std::uint64_t World::atomic_word(AtomicOp op, const std::uint64_t* at, std::uint64_t operand, std::uint64_t compare,
                                 Rank rank) {
  return apply(pe_->space(), op, at, operand, compare, rank);
}

void World::fence() { pgas::fence(pe_->space()); }
void World::quiet() { pgas::quiet(pe_->space()); }

void World::wait_signed(const void* at, std::size_t bytes, Compare comparison, std::int64_t value) {
  if (bytes == sizeof(std::int32_t))
    wait(*pe_, at, comparison, static_cast<std::int32_t>(value));
  else
    wait(*pe_, at, comparison, value);
}
void World::wait_unsigned(const void* at, std::size_t bytes, Compare comparison, std::uint64_t value) {
  if (bytes == sizeof(std::uint32_t))
    wait(*pe_, at, comparison, static_cast<std::uint32_t>(value));
  else
    wait(*pe_, at, comparison, value);
}

Status World::barrier() {
  quiet();
  return pe_->everybody().barrier();
}

Team World::team() { return Team(std::shared_ptr<api::Team>(pe_, &pe_->everybody())); }

Result<std::optional<Team>> World::split(const Team& parent, Rank start, Rank stride, Rank size) {
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
