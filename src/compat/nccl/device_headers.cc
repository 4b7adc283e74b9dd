// The host's functions of NCCL's device headers (nccl_device.h). Their device code reads structures of NCCL's own,
// which weft does not make: so what would make them is refused. Programs that merely name them, as PyTorch does, load.

#include "compat/nccl/group.h"

using namespace weft::compat::nccl;

// As nccl_device/core.h has it.
struct ncclTeam {
  int ranks, rank, stride;
};

namespace {

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
