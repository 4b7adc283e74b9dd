#include "compat/nvshmem/library.h"

using namespace weft;
using compat::nvshmem::Library;
using compat::nvshmem::library;

namespace {

// The team that a split of `parent` makes for this PE, if it is in `group`.
int split(const char* call, api::Team& parent, const pgas::Group& group, const nvshmem_team_config_t* config, long mask,
          nvshmem_team_t* made) {
  Library& l = library(call);
  auto team = l.pe->split(parent, group);
  if (!team) return -1;
  const bool configured = config != nullptr && (mask & NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS) != 0;
  if (*team)
    *made = l.keep(std::move(*team), configured ? *config : nvshmem_team_config_t(NVSHMEM_TEAM_CONFIG_INITIALIZER));
  return 0;
}

}  // namespace

extern "C" {

int nvshmem_team_my_pe(nvshmem_team_t handle) {
  const api::Team* team = library("nvshmem_team_my_pe").team(handle);
  return team == nullptr ? -1 : team->rank();
}
int nvshmem_team_n_pes(nvshmem_team_t handle) {
  const api::Team* team = library("nvshmem_team_n_pes").team(handle);
  return team == nullptr ? -1 : team->ranks();
}
void nvshmem_team_get_config(nvshmem_team_t handle, nvshmem_team_config_t* config) {
  if (const auto kept = library("nvshmem_team_get_config").config(handle)) *config = *kept;
}
int nvshmem_team_translate_pe(nvshmem_team_t from, int pe, nvshmem_team_t to) {
  Library& l = library("nvshmem_team_translate_pe");
  const api::Team *source = l.team(from), *destination = l.team(to);
  return source == nullptr || destination == nullptr ? -1 : compat::onesided::translate(*source, pe, *destination);
}
int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                               const nvshmem_team_config_t* config, long mask, nvshmem_team_t* made) {
  api::Team* team = library("nvshmem_team_split_strided").team(parent);
  *made = NVSHMEM_TEAM_INVALID;
  if (team == nullptr) return -1;
  const pgas::Group group = team->group().part(start, stride, size);
  return group.size == 0 ? -1 : split("nvshmem_team_split_strided", *team, group, config, mask, made);
}
int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange, const nvshmem_team_config_t* xconfig, long xmask,
                          nvshmem_team_t* xteam, const nvshmem_team_config_t* yconfig, long ymask,
                          nvshmem_team_t* yteam) {
  constexpr const char* kCall = "nvshmem_team_split_2d";
  api::Team* team = library(kCall).team(parent);
  *xteam = *yteam = NVSHMEM_TEAM_INVALID;
  if (team == nullptr || xrange < 1) return -1;
  const auto [x, y] = compat::onesided::row_and_column(*team, xrange);
  const int along_x = split(kCall, *team, x, xconfig, xmask, xteam);
  const int along_y = split(kCall, *team, y, yconfig, ymask, yteam);
  return along_x == 0 && along_y == 0 ? 0 : -1;
}
void nvshmem_team_destroy(nvshmem_team_t team) { library("nvshmem_team_destroy").destroy(team); }

}  // extern "C"
