#include "compat/nvshmem/library.h"

#include <algorithm>
#include <array>

namespace weft::compat::nvshmem {

std::unique_ptr<Library> running;

Library::Library(std::unique_ptr<api::Pe> own, int level) : Process(std::move(own), level, "nvshmem_init") {
  teams_.resize(NVSHMEM_TEAMS_MIN);
  teams_[NVSHMEM_TEAM_WORLD].team = world();
  teams_[NVSHMEM_TEAM_SHARED].team = teams_[NVSHMEMX_TEAM_NODE].team = near();
  teams_[NVSHMEMX_TEAM_SAME_MYPE_NODE].team = peers_elsewhere();
}

// The PEs that have this one's number on their machines; null where machines have no equal runs of PEs.
std::shared_ptr<api::Team> Library::peers_elsewhere() {
  constexpr const char* kCall = "nvshmem_init";
  const pgas::Group here = near()->group();
  const auto ranks = static_cast<std::size_t>(pe->ranks());
  const std::array<std::int32_t, 3> own{here.start, here.size > 1 ? here.stride : 1, here.size};
  std::vector<std::int32_t> all(3 * ranks);
  require(kCall, pe->everybody().run({.collective = Collective::kAllGather,
                                      .in = own.data(),
                                      .out = all.data(),
                                      .count = own.size(),
                                      .type = DataType::kInt32}));
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::int32_t* const of = &all[3 * r];
    if (of[1] != 1 || of[2] != here.size || of[0] != static_cast<std::int32_t>(r) / here.size * here.size)
      return nullptr;
  }
  auto made = pe->make_team({pe->rank() % here.size, here.size, pe->ranks() / here.size});
  if (!made) require(kCall, tl::make_unexpected(made.error()));
  return std::move(*made);
}

std::shared_ptr<api::Team> Library::held(nvshmem_team_t handle) {
  const MutexLock guard(mutex_);
  return handle < 0 || static_cast<std::size_t>(handle) >= teams_.size()
             ? nullptr
             : teams_[static_cast<std::size_t>(handle)].team;
}

nvshmem_team_t Library::keep(std::shared_ptr<api::Team> team, const nvshmem_team_config_t& config) {
  const MutexLock guard(mutex_);
  const auto free =
      std::find_if(teams_.begin() + NVSHMEM_TEAMS_MIN, teams_.end(), [](const Numbered& t) { return !t.team; });
  const auto handle = static_cast<nvshmem_team_t>(free - teams_.begin());
  if (free == teams_.end()) teams_.emplace_back();
  teams_[static_cast<std::size_t>(handle)] = {std::move(team), config};
  return handle;
}

std::optional<nvshmem_team_config_t> Library::config(nvshmem_team_t handle) {
  if (team(handle) == nullptr) return std::nullopt;
  const MutexLock guard(mutex_);
  return teams_[static_cast<std::size_t>(handle)].config;
}

void Library::destroy(nvshmem_team_t handle) {
  std::shared_ptr<api::Team> ending;  // outside the lock: its end may wait for other members
  const MutexLock guard(mutex_);
  if (handle < NVSHMEM_TEAMS_MIN || static_cast<std::size_t>(handle) >= teams_.size()) return;
  ending = std::move(teams_[static_cast<std::size_t>(handle)].team);
}

void not_running(const char* call) { onesided::not_running(call, "nvshmem_init", "nvshmem_finalize"); }

pgas::Compare comparison(const char* call, int cmp) {
  switch (cmp) {
    case NVSHMEM_CMP_EQ:
      return pgas::Compare::kEqual;
    case NVSHMEM_CMP_NE:
      return pgas::Compare::kNotEqual;
    case NVSHMEM_CMP_GT:
      return pgas::Compare::kGreater;
    case NVSHMEM_CMP_LE:
      return pgas::Compare::kLessEqual;
    case NVSHMEM_CMP_LT:
      return pgas::Compare::kLess;
    case NVSHMEM_CMP_GE:
      return pgas::Compare::kGreaterEqual;
  }
  running->space().misuse(call, fmt::format("{} is none of the comparisons NVSHMEM_CMP_EQ … NVSHMEM_CMP_GE", cmp));
}

pgas::SignalOp signal_op(const char* call, int op) {
  if (op == NVSHMEM_SIGNAL_SET) return pgas::SignalOp::kSet;
  if (op != NVSHMEM_SIGNAL_ADD)
    running->space().misuse(call, fmt::format("sig_op {} is neither NVSHMEM_SIGNAL_SET nor NVSHMEM_SIGNAL_ADD", op));
  return pgas::SignalOp::kAdd;
}

void on_stream(const char* call, cudaStream_t stream, std::function<void()> work) {
  Library& l = library(call);
  l.require(call, l.streams.push(stream, std::move(work)));
}

}  // namespace weft::compat::nvshmem
