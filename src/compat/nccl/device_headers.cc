// The host's functions of NCCL's device headers (nccl_device.h). Their device code reads structures of NCCL's own,
// which weft does not make: so what would make them is refused. Programs that merely name them, as PyTorch does, load.

#include <cstddef>
#include <cstring>

#include "compat/nccl/group.h"

using namespace weft::compat::nccl;

// As nccl_device/core.h has them.
struct ncclTeam {
  int ranks, rank, stride;
};
struct MultimemHandle {
  void* base;
};

namespace {

// What ncclCommProperties of nccl_device/host.h begins with. The caller says how long its structure is; what this one
// lacks, or knows more of, is about device code and zero.
struct Properties {
  std::size_t size;
  unsigned int magic, version;
  int rank, ranks, cuda_device, nvml_device;
  bool device_api, multimem;
  int gin_type, lsa_teams;
  bool host_rma;
};
constexpr unsigned int kMagic = 0xcafebeef;  // NCCL_API_MAGIC
constexpr std::size_t kMostBytes = 4096;     // a choice

ncclResult_t not_here(const char* function) {
  return refuse_in_group(ncclInvalidUsage,
                         "{}: weft has no memory for NCCL's device headers; its own are in weft/device.h", function);
}

// A rank of `team` seen from `from`, which is this rank's number there.
int rank_seen(const ncclComm* comm, ncclTeam team, int rank, int from) {
  return comm == nullptr ? -1 : from + (rank - team.rank) * team.stride;
}

}  // namespace

WEFT_NCCL_DEFINE(ncclResult_t, DevCommCreate, (ncclComm_t, const void*, void*)) {
  return not_here("ncclDevCommCreate");
}
WEFT_NCCL_DEFINE(ncclResult_t, DevCommDestroy, (ncclComm_t, const void*)) { return not_here("ncclDevCommDestroy"); }
WEFT_NCCL_DEFINE(ncclResult_t, GinBarrierCreateRequirement, (ncclComm_t, ncclTeam, int, void*, void*)) {
  return not_here("ncclGinBarrierCreateRequirement");
}
WEFT_NCCL_DEFINE(ncclResult_t, LsaBarrierCreateRequirement, (ncclTeam, int, void*, void*)) {
  return not_here("ncclLsaBarrierCreateRequirement");
}
WEFT_NCCL_DEFINE(ncclResult_t, LLA2ACreateRequirement, (int, int, void*, void*)) {
  return not_here("ncclLLA2ACreateRequirement");
}
WEFT_NCCL_DEFINE(int, LLA2ACalcSlots, (int, int)) { return 0; }

// All ranks; those whose memory NCCL's device code would reach: nobody else's; so all ranks once more.
WEFT_NCCL_DEFINE(ncclTeam, TeamWorld, (ncclComm_t comm)) {
  return comm == nullptr ? ncclTeam{} : ncclTeam{comm->ranks, comm->rank, 1};
}
WEFT_NCCL_DEFINE(ncclTeam, TeamLsa, (ncclComm_t)) { return {1, 0, 1}; }
WEFT_NCCL_DEFINE(ncclTeam, TeamRail, (ncclComm_t comm)) { return pncclTeamWorld(comm); }
WEFT_NCCL_DEFINE(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam team, int rank)) {
  return rank_seen(comm, team, rank, comm == nullptr ? 0 : comm->rank);
}
WEFT_NCCL_DEFINE(int, TeamRankToLsa, (ncclComm_t comm, ncclTeam team, int rank)) {
  return rank_seen(comm, team, rank, 0);
}

// Windows without device code: puts and signals of the host are there, all else is not.
WEFT_NCCL_DEFINE(ncclResult_t, CommQueryProperties, (ncclComm_t comm, void* out)) {
  if (comm == nullptr || out == nullptr) return refuse(ncclInvalidArgument, "ncclCommQueryProperties: null");
  Properties head{};
  std::memcpy(&head, out, offsetof(Properties, rank));
  if (head.magic != kMagic || head.size < sizeof head || head.size > kMostBytes)
    return refuse(ncclInvalidArgument,
                  "ncclCommQueryProperties: the structure is not initialized (NCCL_COMM_PROPERTIES_INITIALIZER)");
  std::memset(static_cast<std::byte*>(out) + offsetof(Properties, rank), 0, head.size - offsetof(Properties, rank));
  head.rank = comm->rank, head.ranks = head.lsa_teams = comm->ranks;
  head.cuda_device = head.nvml_device = comm->device_number;
  head.host_rma = true;
  std::memcpy(out, &head, sizeof head);
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, GetLsaDevicePointer, (ncclWindow_t, std::size_t, int, void**)) {
  return not_here("ncclGetLsaDevicePointer");
}
WEFT_NCCL_DEFINE(ncclResult_t, GetPeerDevicePointer, (ncclWindow_t, std::size_t, int, void**)) {
  return not_here("ncclGetPeerDevicePointer");
}
WEFT_NCCL_DEFINE(ncclResult_t, GetLsaMultimemDevicePointer, (ncclWindow_t, std::size_t, void**)) {
  return not_here("ncclGetLsaMultimemDevicePointer");
}
WEFT_NCCL_DEFINE(ncclResult_t, GetMultimemDevicePointer, (ncclWindow_t, std::size_t, MultimemHandle, void**)) {
  return not_here("ncclGetMultimemDevicePointer");
}
WEFT_NCCL_DEFINE(ncclResult_t, GetMultimemDeviceLeInfo, (ncclWindow_t, std::size_t, void*, std::size_t*)) {
  return not_here("ncclGetMultimemDeviceLeInfo");
}
WEFT_NCCL_DEFINE(ncclResult_t, GetCftDeviceLeInfo, (ncclWindow_t, std::size_t, int, ncclTeam, void*, std::size_t*)) {
  return not_here("ncclGetCftDeviceLeInfo");
}
WEFT_NCCL_DEFINE(ncclResult_t, GetPeerDeviceLeInfo, (ncclWindow_t, std::size_t, int, void*, std::size_t*)) {
  return not_here("ncclGetPeerDeviceLeInfo");
}
WEFT_NCCL_DEFINE(ncclResult_t, CftBarrierCreateRequirement, (ncclTeam, int, void*, void*)) {
  return not_here("ncclCftBarrierCreateRequirement");
}
WEFT_NCCL_DEFINE(ncclResult_t, GinOutboxCreateRequirement, (int, int, void*, void*)) {
  return not_here("ncclGinOutboxCreateRequirement");
}
WEFT_NCCL_DEFINE(ncclResult_t, GinInboxA2ACreateRequirement, (ncclTeam, int, int, void*, void*)) {
  return not_here("ncclGinInboxA2ACreateRequirement");
}
WEFT_NCCL_DEFINE(ncclTeam, TeamCft, (ncclComm_t, int)) { return {1, 0, 1}; }
WEFT_NCCL_DEFINE(ncclTeam, TeamCftMultimem, (ncclComm_t)) { return {1, 0, 1}; }
