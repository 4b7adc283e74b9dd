#pragma once

#include <map>
#include <memory>
#include <vector>

#include <shmem.h>
#include "base/mutex.h"
#include "compat/onesided/process.h"

struct weft_shmem_team {
  std::shared_ptr<weft::api::Team> team;
  shmem_team_config_t config{};
};

struct weft_shmem_context {
  shmem_team_t handle;
  std::shared_ptr<weft::api::Team> team;
};

namespace weft::compat::shmem {

// What there is between shmem_init and shmem_finalize.
class Library : public onesided::Process {
 public:
  Library(std::unique_ptr<api::Pe> pe, int thread_level);

  // Null: SHMEM_TEAM_INVALID. Ends the process where the team has been destroyed.
  weft_shmem_team* team(const char* call, shmem_team_t handle);
  shmem_team_t keep(std::shared_ptr<api::Team> team, const shmem_team_config_t& config);
  void destroy(shmem_team_t handle);
  // PE_size PEs from PE_start on, 2^logPE_stride apart: made when first used.
  api::Team& active_set(const char* call, int start, int log_stride, int size);

  // The PE of the job that a context's caller means.
  Rank job_rank(const char* call, shmem_ctx_t ctx, int pe) const {
    if (ctx == SHMEM_CTX_DEFAULT) [[likely]]
      return pe;
    return of_context(call, ctx, pe);
  }

 private:
  Rank of_context(const char* call, shmem_ctx_t ctx, int pe) const;

  weft_shmem_team world_;
  weft_shmem_team near_;  // SHMEM_TEAM_SHARED
  Mutex mutex_;
  std::vector<std::unique_ptr<weft_shmem_team>> teams_ WEFT_GUARDED_BY(mutex_);
  std::map<pgas::Group, std::shared_ptr<api::Team>> active_sets_ WEFT_GUARDED_BY(mutex_);
};

// The C interface has no handle to pass: one library per process.
extern std::unique_ptr<Library> running;

[[noreturn]] void not_running(const char* call);
inline Library& library(const char* call) {
  if (!running) [[unlikely]]
    not_running(call);
  return *running;
}

// Null: SHMEM_TEAM_INVALID.
inline weft_shmem_team* team(const char* call, shmem_team_t handle) { return library(call).team(call, handle); }

pgas::Compare comparison(const char* call, int cmp);

// Defines pshmem_NAME, and shmem_NAME as its weak alias, so that tools can replace the latter.
#define WEFT_SHMEM_DEFINE(result, name, parameters)                                        \
  extern "C" result shmem_##name parameters __attribute__((weak, alias("pshmem_" #name))); \
  extern "C" result pshmem_##name parameters

}  // namespace weft::compat::shmem
