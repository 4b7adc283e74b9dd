#include "compat/shmem/library.h"

#include <algorithm>

namespace weft::compat::shmem {

std::unique_ptr<Library> running;

Library::Library(std::unique_ptr<api::Pe> own, int level) : Process(std::move(own), level, "shmem_init") {
  world_.team = world();
  near_.team = near();
}

weft_shmem_team* Library::team(const char* call, shmem_team_t handle) {
  if (handle == SHMEM_TEAM_SHARED) return &near_;
  if (handle == SHMEM_TEAM_WORLD) return &world_;
  if (handle == SHMEM_TEAM_INVALID) return nullptr;
  const MutexLock guard(mutex_);
  if (std::ranges::none_of(teams_, [&](const auto& t) { return t.get() == handle; }))
    space().misuse(call, "the team has been destroyed, or was never made");
  return handle;
}

shmem_team_t Library::keep(std::shared_ptr<api::Team> team, const shmem_team_config_t& config) {
  const MutexLock guard(mutex_);
  teams_.push_back(std::make_unique<weft_shmem_team>(weft_shmem_team{std::move(team), config}));
  return teams_.back().get();
}

void Library::destroy(shmem_team_t handle) {
  std::unique_ptr<weft_shmem_team> ending;  // outside the lock: its end may wait for other members
  const MutexLock guard(mutex_);
  const auto found = std::find_if(teams_.begin(), teams_.end(), [&](const auto& t) { return t.get() == handle; });
  if (found == teams_.end()) return;
  ending = std::move(*found);
  teams_.erase(found);
}

api::Team& Library::active_set(const char* call, int start, int log_stride, int size) {
  const bool possible = log_stride >= 0 && log_stride < 31 && start >= 0 && size >= 1 &&
                        start + (std::int64_t{size} - 1) * (std::int64_t{1} << log_stride) < pe->ranks();
  const pgas::Group group{start, possible ? 1 << log_stride : 1, size};
  if (!possible || group.member(pe->rank()) < 0)
    space().misuse(call,
                   fmt::format("PE_start {}, logPE_stride {}, PE_size {} is no active set of {} PEs that this one "
                               "is in",
                               start, log_stride, size, pe->ranks()));
  if (size == pe->ranks()) return *world_.team;
  {
    const MutexLock guard(mutex_);
    if (const auto known = active_sets_.find(group); known != active_sets_.end()) return *known->second;
  }
  auto made = pe->make_team(group);
  if (!made) require(call, tl::make_unexpected(made.error()));
  const MutexLock guard(mutex_);
  return *active_sets_.emplace(group, std::move(*made)).first->second;
}

Rank Library::of_context(const char* call, shmem_ctx_t ctx, int member) const {
  if (ctx == SHMEM_CTX_INVALID) space().misuse(call, "the context is SHMEM_CTX_INVALID");
  if (member < 0 || member >= ctx->team->ranks())
    space().misuse(call, fmt::format("PE {} is outside 0 … {} of the context's team", member, ctx->team->ranks() - 1));
  return ctx->team->group().job_rank(member);
}

void not_running(const char* call) { onesided::not_running(call, "shmem_init", "shmem_finalize"); }

pgas::Compare comparison(const char* call, int cmp) {
  if (cmp < SHMEM_CMP_EQ || cmp > SHMEM_CMP_LE)
    running->space().misuse(call, fmt::format("{} is none of the comparisons SHMEM_CMP_EQ … SHMEM_CMP_LE", cmp));
  return static_cast<pgas::Compare>(cmp);
}
static_assert(static_cast<int>(pgas::Compare::kEqual) == SHMEM_CMP_EQ &&
              static_cast<int>(pgas::Compare::kGreaterEqual) == SHMEM_CMP_GE &&
              static_cast<int>(pgas::Compare::kLessEqual) == SHMEM_CMP_LE);
static_assert(static_cast<int>(pgas::SignalOp::kAdd) == SHMEM_SIGNAL_ADD);

}  // namespace weft::compat::shmem
