#pragma once

#include "plan/tune/nccl/model.h"

namespace weft::tune::nccl {

// Whether NCCL has a kernel of its own for calls whose buffers are registered as symmetric windows
// (ncclCommWindowRegister with NCCL_WIN_COLL_SYMMETRIC): for all_reduce, all_gather and reduce_scatter of ranks that
// one NVLink domain joins, from 2.27 on. Empty: it has. Otherwise why not, and the call is one without windows.
std::string why_not_symmetric(const System& system, Collective collective);

// A row per kernel: LL packets, with or without the switch's multicast; loads and stores on the peers' memory; loads
// that the switch sums and stores that it copies. Chosen is the one with the least time, a fortieth of it added per
// block. NCCL takes it whatever its other algorithms promise. `bytes`: of the larger side, as in rows(). Requires:
// why_not_symmetric() is empty.
// Source: NCCL 2.27.3 to 2.30.7, src/symmetric.cc, later src/sym_kernels.cc (queryModel, ncclSymkPickKernel). Sums of
// at most four bytes per element, which the others are not is not modelled; nor are copy engines (all_gather of more
// than 8 MiB on Blackwell where the caller asks for NCCL_CTA_POLICY_ZERO) and kernels across nodes (2.29).
std::vector<Row> symmetric_rows(const System& system, Collective collective, Bytes bytes);

}  // namespace weft::tune::nccl
