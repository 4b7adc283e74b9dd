#include "compat/nccl/group.h"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <utility>

#include "compat/nccl/kernels.h"
#include "compat/nccl/model.h"
#include "compat/nccl/staging.h"

namespace weft::compat::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<std::future<Status>> made;
  ncclResult_t failed = ncclSuccess;
  std::string why;
};
thread_local Group group;

// A communicator's messages of one group move together, so in one stream: the first one's. It begins when the others
// have come here, and they go on when it has.
struct Joined {
  ncclComm* comm;
  net::cuda::Stream first, other;
  auto operator<=>(const Joined&) const = default;
};

std::set<Joined> join_streams(std::vector<Operation>& operations) {
  std::map<ncclComm*, net::cuda::Stream> first;
  std::set<Joined> joined;
  for (Operation& o : operations) {
    if (!o.transfer) continue;
    const net::cuda::Stream stream = first.try_emplace(o.comm, o.stream).first->second;
    if (o.stream != stream) joined.insert({o.comm, stream, std::exchange(o.stream, stream)});
  }
  return joined;
}

Status put_behind(ncclComm& comm, net::cuda::Stream before, net::cuda::Stream behind) {
  WEFT_TRY(const auto back, stream::OnDevice::use(comm.device, comm.device_number));
  WEFT_TRY(const auto event, comm.device.make_event());
  WEFT_CHECK(comm.device.record(*event, before));
  return comm.device.wait(*event, behind);
}

Result<StagedOperations> stage_transfers(const std::vector<Operation>& operations, ncclComm* comm) {
  std::vector<Operation> together;
  for (const Operation& o : operations)
    if (o.comm == comm && o.transfer) together.push_back(o);
  return stage(together);
}

// The collectives from `first` on that follow each other on one stream, as one; how many.
Result<std::size_t> stage_collectives(const std::vector<Operation>& operations, std::ptrdiff_t first,
                                      std::vector<StagedOperations>& staged) {
  const auto begin = operations.begin() + first;
  const auto end = std::find_if_not(begin, operations.end(), [&](const Operation& o) {
    return o.comm == begin->comm && o.stream == begin->stream && !o.transfer && !o.alone &&
           o.comm->kernels == nullptr && !o.sum;
  });
  const auto count = std::max<std::size_t>(1, static_cast<std::size_t>(end - begin));
  WEFT_TRY(staged.emplace_back(), stage({&*begin, count}));
  return count;
}

// Before anything is queued. One per communicator: NCCL's promise, too.
Status record_events(const std::vector<Operation>& operations) {
  std::set<const ncclComm*> recorded;
  for (const Operation& o : operations) {
    if (o.launch_event == nullptr) continue;
    if (!recorded.insert(o.comm).second)
      return bad_input("launchCompletionEvent: one communicator has two in one group; at most one");
    const Status done = o.comm->device.record_given(o.launch_event, o.stream);
    if (!done) return failure(done.error().code, done.error().blame, "launchCompletionEvent: {}", done.error().message);
  }
  return {};
}

// A peer may wait for what this rank does first.
Status enqueue_alone(const std::vector<Operation>& operations) {
  for (const bool waiting : {false, true})
    for (const Operation& o : operations)
      if (o.alone && o.waits == waiting) WEFT_CHECK(enqueue(*o.comm, o.stream, o.alone));
  return {};
}

// What kernels do first, on all ranks: so ranks agree on the order.
bool by_kernels(const Operation& o) { return o.comm->kernels != nullptr && !o.alone; }
Status enqueue_all(std::vector<Operation> operations) {
  WEFT_CHECK(record_events(operations));
  const std::set<Joined> joined = join_streams(operations);
  for (const Joined& j : joined) WEFT_CHECK(put_behind(*j.comm, j.other, j.first));
  std::vector<Operation> kernels;
  std::copy_if(operations.begin(), operations.end(), std::back_inserter(kernels), by_kernels);
  std::vector<StagedOperations> through_host;
  std::vector<ncclComm*> done;
  const Operation* skipped = nullptr;  // up to here: staged with one before
  for (const Operation& o : operations) {
    if (&o < skipped || by_kernels(o) || o.alone) continue;
    if (!o.transfer) {
      WEFT_TRY(const std::size_t together, stage_collectives(operations, &o - operations.data(), through_host));
      skipped = &o + together;
    } else if (std::find(done.begin(), done.end(), o.comm) == done.end()) {
      done.push_back(o.comm);
      WEFT_TRY(through_host.emplace_back(), stage_transfers(operations, o.comm));
    }
  }
  WEFT_CHECK(start_kernels(kernels));
  for (const StagedOperations& staged : through_host) WEFT_CHECK(enqueue(staged));
  for (const Joined& j : joined) WEFT_CHECK(put_behind(*j.comm, j.first, j.other));
  return enqueue_alone(operations);
}

// Ends the thread's group. `operations`: its own, none if it is inside another. Errors: the first call's between, then
// of communicators that were made.
ncclResult_t take_group(std::vector<Operation>& operations) {
  if (--group.depth > 0) return ncclSuccess;
  Group ended = std::exchange(group, {});
  Status status;
  for (std::future<Status>& m : ended.made)
    if (Status one = m.get(); status && !one) status = std::move(one);
  if (ended.failed != ncclSuccess) return refuse(ended.failed, "{}", ended.why);
  operations = std::move(ended.operations);
  return result_of(status);
}

}  // namespace

bool in_group() { return group.depth > 0; }
void start_group() { ++group.depth; }

ncclResult_t in_group(ncclResult_t result) {
  if (in_group() && group.failed == ncclSuccess && result != ncclSuccess) {
    group.failed = result;
    group.why = last_error();
  }
  return result;
}

ncclResult_t end_group() {
  if (group.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  std::vector<Operation> operations;
  if (const ncclResult_t error = take_group(operations); error != ncclSuccess) return error;
  return result_of(enqueue_all(std::move(operations)));
}

ncclResult_t end_group_timed(float& microseconds) {
  if (group.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
  std::vector<Operation> operations;
  if (const ncclResult_t error = take_group(operations); error != ncclSuccess) return error;
  const auto time = estimate(operations);
  if (time) microseconds = static_cast<float>(time->us());
  return result_of(time);
}

void drop_group() {
  std::vector<Operation> operations;
  if (group.depth > 0) (void)take_group(operations);
}

ncclResult_t submit(Operation operation) {
  if (operation.comm->finalized) return refuse_in_group(ncclInvalidUsage, "the communicator is finalized");
  if (operation.comm->suspended)
    return refuse_in_group(ncclInvalidUsage, "the communicator is suspended: ncclCommResume comes first");
  if (const ncclResult_t error = operation.comm->async_error(); error != ncclSuccess) return in_group(error);
  if (!in_group()) return result_of(enqueue_all({operation}));
  group.operations.push_back(std::move(operation));
  return ncclSuccess;
}

ncclResult_t submit(std::future<Status> made) {
  if (!in_group()) return result_of(made.get());
  group.made.push_back(std::move(made));
  return ncclSuccess;
}

}  // namespace weft::compat::nccl

WEFT_NCCL_DEFINE(ncclResult_t, GroupStart, (void)) {
  weft::compat::nccl::start_group();
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, GroupEnd, (void)) { return weft::compat::nccl::end_group(); }

WEFT_NCCL_DEFINE(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info)) {
  using namespace weft::compat::nccl;
  constexpr unsigned kMagic = 0x74685283;  // of NCCL_SIM_INFO_INITIALIZER
  if (info == nullptr || info->magic != kMagic || info->size < sizeof(ncclSimInfo_t)) {
    drop_group();
    return refuse(ncclInvalidArgument,
                  "ncclGroupSimulateEnd: the ncclSimInfo_t is null or not initialized: begin with "
                  "NCCL_SIM_INFO_INITIALIZER");
  }
  return end_group_timed(info->estimatedTime);
}

// Not NCCL's: with WEFT_DEVICE=host there is no cudaStreamSynchronize.
extern "C" ncclResult_t weft_stream_synchronize(cudaStream_t stream) {
  const auto used = weft::compat::nccl::device();
  if (!used) return weft::compat::nccl::result_of(used);
  return weft::compat::nccl::result_of((*used)->synchronize(stream));
}
