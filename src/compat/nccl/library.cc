#include "compat/nccl/library.h"

#include "base/env.h"
#include "compat/nccl/one_sided.h"
#include "compat/nccl/same_calls.h"

namespace weft::compat::nccl {
namespace {

thread_local std::string last_text;

}  // namespace

// The C interface has no handle to pass before there is a communicator: one runtime per process.
Result<std::shared_ptr<stream::Runtime>> runtime() {
  static const auto opened = []() -> Result<std::shared_ptr<stream::Runtime>> {
    WEFT_TRY(const env::Settings settings, env::read());
    return stream::open_runtime(settings.device);
  }();
  return opened;
}

Result<net::cuda::Device*> device() {
  WEFT_TRY(const auto used, runtime());
  return used->device.get();
}

const std::string& last_error() { return last_text; }
void remember(std::string text) { last_text = std::move(text); }

ncclResult_t result_of(const Status& status) {
  if (status) return ncclSuccess;
  last_text = status.error().message;
  switch (status.error().code) {
    case Code::kInvalidArgument:
      return ncclInvalidArgument;
    case Code::kUnsupported:
    case Code::kMismatch:
      return ncclInvalidUsage;
    case Code::kPeerDied:
    case Code::kTimeout:
    case Code::kAborted:
    case Code::kLeftOut:
    case Code::kNoQuorum:
    case Code::kPeerLeft:
      return ncclRemoteError;
    case Code::kNotFound:
      return ncclUnhandledCudaError;
    case Code::kNoResources:
    case Code::kSystem:
      return ncclSystemError;
    case Code::kInternal:
      break;
  }
  return ncclInternalError;
}

}  // namespace weft::compat::nccl

ncclComm::ncclComm(weft::Communicator made, std::unique_ptr<weft::stream::Member> on_device,
                   weft::net::cuda::Device& used, int number, std::shared_ptr<const weft::cost::MachineView> cores)
    : comm(std::move(made)),
      kernels(std::move(on_device)),
      same_calls(kernels != nullptr && kernels->group().in_one_process()
                     ? weft::compat::nccl::SameCalls::of(kernels->group())
                     : nullptr),
      device(used),
      device_number(number),
      rank(comm.rank()),
      ranks(comm.ranks()),
      machine(std::move(cores)),
      one_sided_(std::make_unique<weft::compat::nccl::OneSided>(*this)) {}

ncclComm::~ncclComm() {
  if (!aborted) issue([this] { note(one_sided_->finish()); });
  if (kernels == nullptr || kernels->group().in_one_process() || aborted) return;
  issue([this] {
    note(kernels->finish());
    note(comm.barrier());
    kernels->group().forget_others();  // CUDA wants memory closed everywhere before it is freed
    note(comm.barrier());
  });
}

void ncclComm::look() {
  if (kernels == nullptr) return;
  weft::stream::Group& group = kernels->group();
  if (const weft::Status alive = comm.status(); !alive && !group.in_one_process()) {
    note(alive);
    note(group.abort());
  }
  if (same_calls) note(same_calls->trouble());
  note(group.trouble(rank));
}

void ncclComm::note(const weft::Status& status) {
  const weft::MutexLock guard(mutex_);
  if (failed_ && !status) failed_ = status;
}

ncclResult_t ncclComm::async_error() {
  const weft::MutexLock guard(mutex_);
  return weft::compat::nccl::result_of(failed_);
}

std::string ncclComm::async_text() {
  const weft::MutexLock guard(mutex_);
  return failed_ ? std::string() : failed_.error().message;
}

ncclRedOp_t ncclComm::add_sum(const weft::compat::nccl::Premultiplied& sum) {
  const weft::MutexLock guard(mutex_);
  sums_[next_sum_] = sum;
  return static_cast<ncclRedOp_t>(next_sum_++);
}

std::optional<weft::compat::nccl::Premultiplied> ncclComm::sum(int op) {
  const weft::MutexLock guard(mutex_);
  const auto found = sums_.find(op);
  return found == sums_.end() ? std::nullopt : std::optional(found->second);
}

bool ncclComm::remove_sum(int op) {
  const weft::MutexLock guard(mutex_);
  return sums_.erase(op) == 1;
}

// Its address is no memory of the application's: programs ask for that.
ncclWindow_t ncclComm::add_window(void* memory, std::size_t bytes) {
  const weft::MutexLock guard(mutex_);
  auto made =
      std::make_shared<const weft::compat::nccl::Window>(weft::compat::nccl::Window{memory, bytes, next_window_++});
  const auto handle = reinterpret_cast<ncclWindow_t>(const_cast<weft::compat::nccl::Window*>(made.get()));
  windows_.emplace(handle, std::move(made));
  return handle;
}

std::shared_ptr<const weft::compat::nccl::Window> ncclComm::window(ncclWindow_t handle) {
  const weft::MutexLock guard(mutex_);
  const auto found = windows_.find(handle);
  return found == windows_.end() ? nullptr : found->second;
}

bool ncclComm::remove_window(ncclWindow_t handle) {
  const weft::MutexLock guard(mutex_);
  return windows_.erase(handle) == 1;
}

bool ncclComm::give_id(const std::string& name) {
  const weft::MutexLock guard(mutex_);
  if (!grow_id_.empty()) return false;
  grow_id_ = name;
  return true;
}

bool ncclComm::take_id(const std::string& name) {
  const weft::MutexLock guard(mutex_);
  if (grow_id_.empty() || grow_id_ != name) return false;
  grow_id_.clear();
  return true;
}

void ncclComm::abort() {
  if (aborted.exchange(true)) return;
  comm.abort();
  if (kernels) note(kernels->group().abort());
}
