#include "compat/shmem/library.h"

using namespace weft;
using compat::shmem::Library;
using compat::shmem::library;

namespace {

// The team that a split of `parent` makes for this PE, if it is in `group`.
int split(const char* call, api::Team& parent, const pgas::Group& group, const shmem_team_config_t* config, long mask,
          shmem_team_t* made) {
  Library& l = library(call);
  auto team = l.pe->split(parent, group);
  if (!team) return -1;
  const bool configured = config != nullptr && (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0;
  if (*team) *made = l.keep(std::move(*team), configured ? *config : shmem_team_config_t{});
  return 0;
}

int create_context(const char* call, shmem_team_t handle, shmem_ctx_t* ctx) {
  const weft_shmem_team* team = compat::shmem::team(call, handle);
  *ctx = SHMEM_CTX_INVALID;
  if (team == nullptr) return -1;
  *ctx = new weft_shmem_context{handle, team->team};
  return 0;
}

}  // namespace

WEFT_SHMEM_DEFINE(int, team_my_pe, (shmem_team_t handle)) {
  const weft_shmem_team* team = compat::shmem::team("shmem_team_my_pe", handle);
  return team == nullptr ? -1 : team->team->rank();
}
WEFT_SHMEM_DEFINE(int, team_n_pes, (shmem_team_t handle)) {
  const weft_shmem_team* team = compat::shmem::team("shmem_team_n_pes", handle);
  return team == nullptr ? -1 : team->team->ranks();
}
WEFT_SHMEM_DEFINE(int, team_get_config, (shmem_team_t handle, long mask, shmem_team_config_t* config)) {
  const weft_shmem_team* team = compat::shmem::team("shmem_team_get_config", handle);
  if (team == nullptr) return -1;
  if ((mask & SHMEM_TEAM_NUM_CONTEXTS) != 0) *config = team->config;
  return 0;
}
WEFT_SHMEM_DEFINE(int, team_translate_pe, (shmem_team_t from, int pe, shmem_team_t to)) {
  constexpr const char* kCall = "shmem_team_translate_pe";
  const weft_shmem_team* source = compat::shmem::team(kCall, from);
  const weft_shmem_team* destination = compat::shmem::team(kCall, to);
  if (source == nullptr || destination == nullptr) return -1;
  return compat::onesided::translate(*source->team, pe, *destination->team);
}

WEFT_SHMEM_DEFINE(void*, team_ptr, (shmem_team_t handle, const void* dest, int pe)) {
  const int job_rank = pshmem_team_translate_pe(handle, pe, SHMEM_TEAM_WORLD);
  return job_rank < 0 ? nullptr : pshmem_ptr(dest, job_rank);
}

WEFT_SHMEM_DEFINE(int, team_split_strided,
                  (shmem_team_t parent, int start, int stride, int size, const shmem_team_config_t* config, long mask,
                   shmem_team_t* made)) {
  const weft_shmem_team* team = compat::shmem::team("shmem_team_split_strided", parent);
  *made = SHMEM_TEAM_INVALID;
  if (team == nullptr) return -1;
  const pgas::Group group = team->team->group().part(start, stride, size);
  if (group.size == 0) return -1;
  return split("shmem_team_split_strided", *team->team, group, config, mask, made);
}
WEFT_SHMEM_DEFINE(int, team_split_2d,
                  (shmem_team_t parent, int xrange, const shmem_team_config_t* xconfig, long xmask, shmem_team_t* xteam,
                   const shmem_team_config_t* yconfig, long ymask, shmem_team_t* yteam)) {
  const weft_shmem_team* team = compat::shmem::team("shmem_team_split_2d", parent);
  *xteam = *yteam = SHMEM_TEAM_INVALID;
  if (team == nullptr || xrange < 1) return -1;
  const auto [x, y] = compat::onesided::row_and_column(*team->team, xrange);
  const int along_x = split("shmem_team_split_2d", *team->team, x, xconfig, xmask, xteam);
  const int along_y = split("shmem_team_split_2d", *team->team, y, yconfig, ymask, yteam);
  return along_x == 0 && along_y == 0 ? 0 : -1;
}
WEFT_SHMEM_DEFINE(void, team_destroy, (shmem_team_t team)) { library("shmem_team_destroy").destroy(team); }

// Options permit what load and store do not need.
WEFT_SHMEM_DEFINE(int, ctx_create, (long, shmem_ctx_t* ctx)) {
  return create_context("shmem_ctx_create", SHMEM_TEAM_WORLD, ctx);
}
WEFT_SHMEM_DEFINE(int, team_create_ctx, (shmem_team_t team, long, shmem_ctx_t* ctx)) {
  return create_context("shmem_team_create_ctx", team, ctx);
}
WEFT_SHMEM_DEFINE(void, ctx_destroy, (shmem_ctx_t ctx)) {
  const pgas::Space& space = library("shmem_ctx_destroy").space();
  if (ctx == SHMEM_CTX_INVALID) return;
  if (ctx == SHMEM_CTX_DEFAULT) space.misuse("shmem_ctx_destroy", "SHMEM_CTX_DEFAULT lives for ever");
  pgas::quiet(space);
  delete ctx;
}
WEFT_SHMEM_DEFINE(int, ctx_get_team, (shmem_ctx_t ctx, shmem_team_t* team)) {
  *team = ctx == SHMEM_CTX_INVALID ? SHMEM_TEAM_INVALID : ctx == SHMEM_CTX_DEFAULT ? SHMEM_TEAM_WORLD : ctx->handle;
  return ctx == SHMEM_CTX_INVALID ? -1 : 0;
}
