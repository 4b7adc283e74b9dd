#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <nvshmemx.h>
#include "base/mutex.h"
#include "compat/nvshmem/streams.h"
#include "compat/onesided/process.h"
#include "onesided/pgas/remote.h"

namespace weft::compat::nvshmem {

// What there is between nvshmem_init and nvshmem_finalize.
class Library : public onesided::Process {
 public:
  // Ends the process if `pe` cannot make the teams that exist from the start.
  Library(std::unique_ptr<api::Pe> pe, int thread_level);

  // Null: the number is no team's.
  api::Team* team(nvshmem_team_t handle) { return held(handle).get(); }
  std::shared_ptr<api::Team> held(nvshmem_team_t handle);
  nvshmem_team_t keep(std::shared_ptr<api::Team> team, const nvshmem_team_config_t& config);
  std::optional<nvshmem_team_config_t> config(nvshmem_team_t handle);
  // Those that exist from the start stay.
  void destroy(nvshmem_team_t handle);

  Streams streams;

 private:
  std::shared_ptr<api::Team> peers_elsewhere();

  struct Numbered {
    std::shared_ptr<api::Team> team;
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  };
  Mutex mutex_;
  std::vector<Numbered> teams_ WEFT_GUARDED_BY(mutex_);  // by handle
};

// The C interface has no handle to pass: one library per process.
extern std::unique_ptr<Library> running;

[[noreturn]] void not_running(const char* call);
inline Library& library(const char* call) {
  if (!running) [[unlikely]]
    not_running(call);
  return *running;
}

pgas::Compare comparison(const char* call, int cmp);
pgas::SignalOp signal_op(const char* call, int op);
void on_stream(const char* call, cudaStream_t stream, std::function<void()> work);

// Defines nvshmem_NAME, and nvshmemx_NAME_on_stream, which does the same in the order of its stream. The body calls
// itself `kCall`.
#define WEFT_NVSHMEM_DEFINE(name, parameters, ...)                                                 \
  extern "C" void nvshmem_##name(WEFT_NVSHMEM_LIST parameters) {                                   \
    constexpr const char* kCall = "nvshmem_" #name;                                                \
    __VA_ARGS__;                                                                                   \
  }                                                                                                \
  extern "C" void nvshmemx_##name##_on_stream(WEFT_NVSHMEM_LIST parameters, cudaStream_t stream) { \
    constexpr const char* kCall = "nvshmemx_" #name "_on_stream";                                  \
    weft::compat::nvshmem::on_stream(kCall, stream, [=] { __VA_ARGS__; });                         \
  }
// The same for collectives: of a team that does not exist both return nonzero at once.
#define WEFT_NVSHMEM_DEFINE_COLLECTIVE(name, parameters, ...)                                     \
  extern "C" int nvshmem_##name(WEFT_NVSHMEM_LIST parameters) {                                   \
    constexpr const char* kCall = "nvshmem_" #name;                                               \
    const std::shared_ptr<weft::api::Team> on = library(kCall).held(team);                        \
    return __VA_ARGS__;                                                                           \
  }                                                                                               \
  extern "C" int nvshmemx_##name##_on_stream(WEFT_NVSHMEM_LIST parameters, cudaStream_t stream) { \
    constexpr const char* kCall = "nvshmemx_" #name "_on_stream";                                 \
    const std::shared_ptr<weft::api::Team> on = library(kCall).held(team);                        \
    if (on == nullptr) return -1;                                                                 \
    weft::compat::nvshmem::on_stream(kCall, stream, [=] { __VA_ARGS__; });                        \
    return 0;                                                                                     \
  }

}  // namespace weft::compat::nvshmem
