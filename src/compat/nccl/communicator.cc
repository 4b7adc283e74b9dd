// What communicators say of themselves, how they end, and what is registered with them.

#include <cstring>

#include "compat/nccl/kernels.h"
#include "compat/nccl/one_sided.h"
#include "compat/nccl/types.h"

using namespace weft::compat::nccl;

namespace {

constexpr int kWindowFlags =
    NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED;

}  // namespace

WEFT_NCCL_DEFINE(ncclResult_t, GetVersion, (int* version)) {
  if (version == nullptr) return refuse(ncclInvalidArgument, "ncclGetVersion: null");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(const char*, GetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "CUDA failed";
    case ncclSystemError:
      return "the system failed";
    case ncclInternalError:
      return "weft failed";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "another rank failed";
    case ncclInProgress:
      return "in progress";
    case ncclTimeout:
      return "timed out";
    default:
      return "unknown result";
  }
}

WEFT_NCCL_DEFINE(const char*, GetLastError, (ncclComm_t comm)) {
  thread_local std::string text;
  text = comm != nullptr ? comm->async_text() : std::string();
  if (text.empty()) text = last_error();
  return text.c_str();
}

WEFT_NCCL_DEFINE(void, ResetDebugInit, (void)) {}  // weft logs nothing

WEFT_NCCL_DEFINE(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* error)) {
  if (comm == nullptr || error == nullptr) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: null");
  comm->look();
  *error = comm->async_error();
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommCount, (ncclComm_t comm, int* count)) {
  if (comm == nullptr || count == nullptr) return refuse(ncclInvalidArgument, "ncclCommCount: null");
  *count = comm->ranks;
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommCuDevice, (ncclComm_t comm, int* device)) {
  if (comm == nullptr || device == nullptr) return refuse(ncclInvalidArgument, "ncclCommCuDevice: null");
  *device = comm->device_number;
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommUserRank, (ncclComm_t comm, int* rank)) {
  if (comm == nullptr || rank == nullptr) return refuse(ncclInvalidArgument, "ncclCommUserRank: null");
  *rank = comm->rank;
  return ncclSuccess;
}

// What was issued still ends; nothing more is taken.
WEFT_NCCL_DEFINE(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclCommFinalize: null");
  comm->finalized = true;
  return comm->async_error();
}

WEFT_NCCL_DEFINE(ncclResult_t, CommDestroy, (ncclComm_t comm)) {
  delete comm;
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommAbort, (ncclComm_t comm)) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclCommAbort: null");
  comm->abort();
  delete comm;
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags)) {
  if (comm == nullptr || flags != 0) return refuse(ncclInvalidArgument, "ncclCommRevoke: null or flags {}", flags);
  comm->abort();
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, MemAlloc, (void** memory, size_t size)) {
  if (memory == nullptr) return refuse(ncclInvalidArgument, "ncclMemAlloc: null");
  const auto used = device();
  if (!used) return result_of(used);
  const auto made = (*used)->allocate(static_cast<weft::Bytes>(size));
  if (made) *memory = *made;
  return result_of(made);
}

WEFT_NCCL_DEFINE(ncclResult_t, MemFree, (void* memory)) {
  const auto used = device();
  return used ? result_of((*used)->release(memory)) : result_of(used);
}

// Registration alone is a hint: data takes the same way with it and without. Windows are opened by the other processes.
WEFT_NCCL_DEFINE(ncclResult_t, CommRegister, (ncclComm_t comm, void* memory, size_t size, void** handle)) {
  if (comm == nullptr || memory == nullptr || size == 0 || handle == nullptr)
    return refuse(ncclInvalidArgument, "ncclCommRegister: null");
  *handle = memory;
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommDeregister, (ncclComm_t comm, void* handle)) {
  if (comm == nullptr || handle == nullptr) return refuse(ncclInvalidArgument, "ncclCommDeregister: null");
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommWindowRegister,
                 (ncclComm_t comm, void* memory, size_t size, ncclWindow_t* window, int flags)) {
  if (comm == nullptr || memory == nullptr || size == 0 || window == nullptr)
    return refuse_in_group(ncclInvalidArgument, "ncclCommWindowRegister: null");
  if (reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
    return refuse_in_group(ncclInvalidArgument, "ncclCommWindowRegister: memory is not aligned to {} bytes",
                           NCCL_WIN_REQUIRED_ALIGNMENT);
  if ((flags & ~kWindowFlags) != 0)
    return refuse_in_group(ncclInvalidArgument, "ncclCommWindowRegister: flags {:#x}", flags);
  *window = comm->add_window(memory, size);
  comm->issue([comm, added = comm->window(*window)] { comm->note(comm->one_sided().announce(*added)); });
  if (comm->kernels == nullptr || comm->kernels->group().in_one_process()) return ncclSuccess;  // buffers need none
  auto promise = std::make_shared<std::promise<weft::Status>>();
  auto made = promise->get_future();
  comm->issue([=] { promise->set_value(add_window(*comm, memory, size, (flags & NCCL_WIN_COLL_SYMMETRIC) != 0)); });
  return submit(std::move(made));
}

WEFT_NCCL_DEFINE(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window)) {
  if (comm == nullptr || window == nullptr) return refuse(ncclInvalidArgument, "ncclCommWindowDeregister: null");
  const auto registered = comm->window(window);
  if (!registered || !comm->remove_window(window))
    return refuse(ncclInvalidArgument, "ncclCommWindowDeregister: this is no window of the communicator");
  comm->issue([comm, number = registered->number] { comm->one_sided().forget(number); });
  if (comm->kernels) (void)comm->kernels->group().remove_window(registered->memory);  // which may have become none
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t window, void** memory)) {
  if (comm == nullptr || window == nullptr || memory == nullptr)
    return refuse(ncclInvalidArgument, "ncclWinGetUserPtr: null");
  const auto registered = comm->window(window);
  if (!registered) return refuse(ncclInvalidArgument, "ncclWinGetUserPtr: this is no window of the communicator");
  *memory = registered->memory;
  return ncclSuccess;
}

// Waits for what was issued. Regions stay: peers' kernels know their addresses.
WEFT_NCCL_DEFINE(ncclResult_t, CommSuspend, (ncclComm_t comm, int flags)) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclCommSuspend: null");
  if (flags != NCCL_SUSPEND_MEM)
    return refuse(ncclInvalidArgument, "ncclCommSuspend: flags {:#x}: there is NCCL_SUSPEND_MEM (1)", flags);
  if (comm->suspended.exchange(true)) return refuse(ncclInvalidUsage, "ncclCommSuspend: it is suspended already");
  std::promise<void> done;
  comm->issue([&done] { done.set_value(); });
  done.get_future().wait();
  return comm->kernels ? result_of(comm->kernels->finish()) : ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommResume, (ncclComm_t comm)) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclCommResume: null");
  if (!comm->suspended.exchange(false)) return refuse(ncclInvalidUsage, "ncclCommResume: it is not suspended");
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value)) {
  if (comm == nullptr || value == nullptr) return refuse(ncclInvalidArgument, "ncclCommMemStats: null");
  switch (stat) {
    case ncclStatGpuMemSuspend:
      *value = 0;
      return ncclSuccess;
    case ncclStatGpuMemSuspended:
      *value = comm->suspended ? 1 : 0;
      return ncclSuccess;
    case ncclStatGpuMemPersist:
    case ncclStatGpuMemTotal:
      *value = comm->kernels ? static_cast<std::uint64_t>(comm->kernels->group().region_bytes()) : 0;
      return ncclSuccess;
  }
  return refuse(ncclInvalidArgument, "ncclCommMemStats: {} is no ncclCommMemStat_t", static_cast<int>(stat));
}

WEFT_NCCL_DEFINE(ncclResult_t, RedOpCreatePreMulSum,
                 (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
                  ncclComm_t comm)) {
  if (op == nullptr || scalar == nullptr || comm == nullptr)
    return refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: null");
  const auto known = type_of(type);
  if (!known) return result_of(known);
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
    return refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: residence {}", static_cast<int>(residence));
  Premultiplied sum{.type = *known};
  if (residence == ncclScalarHostImmediate)
    sum.scalar = scalar_from(*known, scalar);
  else
    sum.in_device = scalar;
  *op = comm->add_sum(sum);
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclRedOpDestroy: null");
  if (!comm->remove_sum(op))
    return refuse(ncclInvalidArgument, "ncclRedOpDestroy: {} is no operation of this communicator",
                  static_cast<int>(op));
  return ncclSuccess;
}
