#include <algorithm>

#include "api/session/arguments.h"
#include "compat/nccl/config.h"
#include "compat/nccl/group.h"
#include "compat/nccl/types.h"

namespace weft::compat::nccl {
namespace {

// Errors: `parts` times `count` elements are more than a process can have.
Status check_count(std::size_t count, DataType type, std::size_t parts) {
  if (parts == 0 || count <= session::kAddressSpace / parts / static_cast<std::size_t>(size_of(type))) return {};
  return bad_input("{} elements do not fit into memory", count);
}

// `in_parts`, `out_parts`: of `count` elements each; 0: this rank has no such buffer.
ncclResult_t collective(Request request, ncclDataType_t type, std::size_t in_parts, std::size_t out_parts,
                        ncclComm* comm, void* stream, const ncclCollConfig_t* config,
                        std::optional<Premultiplied> sum = {}) {
  if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "the communicator is null");
  const auto known = type_of(type);
  if (!known) return in_group(result_of(known));
  request.type = *known;
  if (request.root < 0 || request.root >= comm->ranks)
    return refuse_in_group(ncclInvalidArgument, "root {} of {} ranks", request.root, comm->ranks);
  if (const Status fits = check_count(request.count, *known, std::max(in_parts, out_parts)); !fits)
    return in_group(result_of(fits));
  const std::size_t bytes = request.count * static_cast<std::size_t>(size_of(*known));
  Operation operation{.comm = comm,
                      .stream = stream,
                      .request = request,
                      .in_bytes = in_parts * bytes,
                      .out_bytes = out_parts * bytes,
                      .sum = sum};
  const auto wishes = wishes_of(config);
  if (!wishes) return in_group(result_of(wishes));
  if (const Status applied = apply(*wishes, operation); !applied) return in_group(result_of(applied));
  return submit(std::move(operation));
}

ncclResult_t reduction(Request request, ncclDataType_t type, ncclRedOp_t op, std::size_t in_parts,
                       std::size_t out_parts, ncclComm* comm, void* stream, const ncclCollConfig_t* config) {
  if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "the communicator is null");
  if (op < ncclNumOps) {
    const auto known = op_of(op);
    if (!known) return in_group(result_of(known));
    request.op = *known;
    return collective(request, type, in_parts, out_parts, comm, stream, config);
  }
  const auto known = type_of(type);
  const auto sum = comm->sum(op);
  if (!known || !sum || sum->type != *known)
    return refuse_in_group(ncclInvalidArgument, "{} is no operation of this communicator for such elements",
                           static_cast<int>(op));
  request.op = ReduceOp::kPremulSum;
  return collective(request, type, in_parts, out_parts, comm, stream, config, sum);
}

std::size_t ranks_of(const ncclComm* comm) { return comm == nullptr ? 0 : static_cast<std::size_t>(comm->ranks); }
bool is_root(const ncclComm* comm, int root) { return comm != nullptr && comm->rank == root; }

ncclResult_t transfer(Transfer t, ncclDataType_t type, ncclComm* comm, void* stream) {
  if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "the communicator is null");
  const auto known = type_of(type);
  if (!known) return in_group(result_of(known));
  if (t.peer < 0 || t.peer >= comm->ranks)
    return refuse_in_group(ncclInvalidArgument, "peer {} of {} ranks", t.peer, comm->ranks);
  t.type = *known;
  if (const Status fits = check_count(t.count, *known, 1); !fits) return in_group(result_of(fits));
  const std::size_t bytes = t.count * static_cast<std::size_t>(size_of(*known));
  const bool sends = t.direction == Transfer::Direction::kSend;
  return submit(
      {.comm = comm, .stream = stream, .transfer = t, .in_bytes = sends ? bytes : 0, .out_bytes = sends ? 0 : bytes});
}

}  // namespace
}  // namespace weft::compat::nccl

using namespace weft::compat::nccl;
using weft::Collective;
using weft::Transfer;

// Defines the function, and the one of nccl...Config that also takes a configuration.
#define WEFT_UNPACKED(...) __VA_ARGS__
#define WEFT_NCCL_COLLECTIVE(name, parameters, ...)                                                          \
  WEFT_NCCL_DEFINE(ncclResult_t, name, (WEFT_UNPACKED parameters)) {                                         \
    constexpr const ncclCollConfig_t* config = nullptr;                                                      \
    __VA_ARGS__;                                                                                             \
  }                                                                                                          \
  WEFT_NCCL_DEFINE(ncclResult_t, name##Config, (WEFT_UNPACKED parameters, const ncclCollConfig_t* config)) { \
    __VA_ARGS__;                                                                                             \
  }

WEFT_NCCL_COLLECTIVE(AllReduce,
                     (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                      cudaStream_t stream),
                     return reduction({.collective = Collective::kAllReduce, .in = in, .out = out, .count = count},
                                      type, op, 1, 1, comm, stream, config))

WEFT_NCCL_COLLECTIVE(
    Reduce,
    (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
     cudaStream_t stream),
    return reduction({.collective = Collective::kReduce, .in = in, .out = out, .count = count, .root = root}, type, op,
                     1, is_root(comm, root), comm, stream, config))

WEFT_NCCL_COLLECTIVE(ReduceScatter,
                     (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                      cudaStream_t stream),
                     return reduction({.collective = Collective::kReduceScatter, .in = in, .out = out, .count = count},
                                      type, op, ranks_of(comm), 1, comm, stream, config))

WEFT_NCCL_COLLECTIVE(
    Broadcast,
    (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream),
    return collective({.collective = Collective::kBroadcast, .in = in, .out = out, .count = count, .root = root}, type,
                      is_root(comm, root), 1, comm, stream, config))

WEFT_NCCL_DEFINE(ncclResult_t, Bcast,
                 (void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
  return pncclBroadcast(data, data, count, type, root, comm, stream);
}

WEFT_NCCL_COLLECTIVE(AllGather,
                     (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                      cudaStream_t stream),
                     return collective({.collective = Collective::kAllGather, .in = in, .out = out, .count = count},
                                       type, 1, ranks_of(comm), comm, stream, config))

WEFT_NCCL_COLLECTIVE(AlltoAll,
                     (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                      cudaStream_t stream),
                     return collective({.collective = Collective::kAllToAll, .in = in, .out = out, .count = count},
                                       type, ranks_of(comm), ranks_of(comm), comm, stream, config))

WEFT_NCCL_COLLECTIVE(
    Gather,
    (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream),
    return collective({.collective = Collective::kGather, .in = in, .out = out, .count = count, .root = root}, type, 1,
                      is_root(comm, root) ? ranks_of(comm) : 0, comm, stream, config))

WEFT_NCCL_COLLECTIVE(
    Scatter,
    (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream),
    return collective({.collective = Collective::kScatter, .in = in, .out = out, .count = count, .root = root}, type,
                      is_root(comm, root) ? ranks_of(comm) : 0, 1, comm, stream, config))

WEFT_NCCL_DEFINE(ncclResult_t, Send,
                 (const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream)) {
  return transfer({Transfer::Direction::kSend, peer, const_cast<void*>(data), count}, type, comm, stream);
}

WEFT_NCCL_DEFINE(ncclResult_t, Recv,
                 (void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
  return transfer({Transfer::Direction::kReceive, peer, data, count}, type, comm, stream);
}
