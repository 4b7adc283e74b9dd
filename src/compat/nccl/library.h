#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>

#include "api/stream/member.h"
#include "base/mutex.h"
#include "compat/nccl/nccl.h"
#include "net/cuda/work_queue.h"
#include "weft/communicator.h"

// Helpers that the functions of nccl.h share: errors as results with a text, the device, and communicators whose
// operations a thread of their own executes in the order of the calls, while streams wait for it.
namespace weft::cost {
class MachineView;
}

namespace weft::compat::nccl {

class OneSided;
class SameCalls;
struct Window;

// The device of this process: CUDA's, or the host's where WEFT_DEVICE says so. Errors: see net::cuda::cuda_device.
Result<std::shared_ptr<stream::Runtime>> runtime();
Result<net::cuda::Device*> device();

// The calling thread's last error, which ncclGetLastError returns.
const std::string& last_error();
ncclResult_t result_of(const Status& status);
template <class T>
ncclResult_t result_of(const Result<T>& result) {
  return result_of(result ? Status() : tl::make_unexpected(result.error()));
}
void remember(std::string text);
// Remembers why, for last_error().
template <class... Args>
ncclResult_t refuse(ncclResult_t result, fmt::format_string<Args...> format, Args&&... args) {
  remember(fmt::format(format, std::forward<Args>(args)...));
  return result;
}

// A sum whose contributions are multiplied first.
struct Premultiplied {
  DataType type = DataType::kFloat32;
  Scalar scalar;
  const void* in_device = nullptr;  // not null: read from there when the operation runs
};

}  // namespace weft::compat::nccl

struct ncclComm {
  // `kernels`: null: operations go through host memory.
  ncclComm(weft::Communicator made, std::unique_ptr<weft::stream::Member> kernels, weft::net::cuda::Device& device,
           int number, std::shared_ptr<const weft::cost::MachineView> machine);

  // Ranks of other processes write to this one's memory: it stays until all of them destroy theirs, or one has died.
  ~ncclComm();

  // Carried out after everything that was issued before.
  void issue(std::function<void()> work) { work_.push(std::move(work)); }
  // Looks for trouble of the kernels, and for dead peers that they wait for.
  void look();
  // The first failure since the communicator was made, as far as it was noted.
  void note(const weft::Status& status);
  ncclResult_t async_error();
  std::string async_text();
  void abort();

  weft::Communicator comm;
  const std::unique_ptr<weft::stream::Member> kernels;
  const std::shared_ptr<weft::compat::nccl::SameCalls> same_calls;  // null: no kernels, or of several processes
  weft::net::cuda::Device& device;
  const int device_number;
  const int rank, ranks;
  const std::shared_ptr<const weft::cost::MachineView> machine;  // what host memory's ways are chosen by
  std::atomic<bool> aborted{false}, finalized{false}, suspended{false};

  // Operations made at run time, by their numbers.
  ncclRedOp_t add_sum(const weft::compat::nccl::Premultiplied& sum);
  std::optional<weft::compat::nccl::Premultiplied> sum(int op);
  bool remove_sum(int op);

  // Registered memory, by its handle. Null: it is none of this communicator's.
  ncclWindow_t add_window(void* memory, std::size_t bytes);
  std::shared_ptr<const weft::compat::nccl::Window> window(ncclWindow_t handle);
  bool remove_window(ncclWindow_t handle);
  // The id that ncclCommGrow is to take, until it has. Errors: there is one already; it is not that.
  bool give_id(const std::string& name);
  bool take_id(const std::string& name);

  // Thread: this communicator's.
  weft::compat::nccl::OneSided& one_sided() { return *one_sided_; }

 private:
  weft::Mutex mutex_;
  weft::Status failed_ WEFT_GUARDED_BY(mutex_);
  std::map<int, weft::compat::nccl::Premultiplied> sums_ WEFT_GUARDED_BY(mutex_);
  int next_sum_ WEFT_GUARDED_BY(mutex_) = ncclNumOps;
  std::map<ncclWindow_t, std::shared_ptr<const weft::compat::nccl::Window>> windows_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t next_window_ WEFT_GUARDED_BY(mutex_) = 0;
  std::string grow_id_ WEFT_GUARDED_BY(mutex_);  // empty: none was given
  std::unique_ptr<weft::compat::nccl::OneSided> one_sided_;
  weft::net::cuda::WorkQueue work_;  // ends first: waits for what was issued, unless aborted
};

// Defines pncclNAME, and ncclNAME as its weak alias, so that tools can replace the latter.
#define WEFT_NCCL_DEFINE(result, name, parameters)                                     \
  extern "C" result nccl##name parameters __attribute__((weak, alias("pnccl" #name))); \
  extern "C" result pnccl##name parameters
