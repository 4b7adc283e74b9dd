#pragma once

#include <unordered_map>

#include "api/session/plan_cache.h"
#include "api/session/request.h"
#include "api/stream/group.h"
#include "plan/schedule/lower/lower.h"
#include "weft/communicator.h"

namespace weft::stream {

using net::cuda::Stream;

enum class By { kKernels, kCopies };  // copies: by copy engines alone

// A request lowered for one rank, in its device's memory; kept for the next one of its shape.
struct Prepared {
  schedule::Plan plan;
  schedule::Program program;
  const std::byte* image = nullptr;  // of kernels: in the group's room for programs …
  DeviceMemory own_image;            // … or here, where that was full
  DeviceMemory input;                // a copy, where the call would overwrite its own input
  std::uint64_t signature = 0;
  ReduceOp op = ReduceOp::kSum;  // sum for collectives that do not reduce
  session::Buffers buffers = {};
  bool divides = false;  // an average of integers: by the number of ranks, after the sum
};

// One rank of a group: the requests that it has prepared, and where it queued the last one.
// Thread: one at a time.
class Member {
 public:
  // Requires: the only one of its rank.
  Member(std::shared_ptr<Group> group, Rank rank) : group_(std::move(group)), rank_(rank) {}
  ~Member() { (void)finish(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  Group& group() const { return *group_; }
  const std::shared_ptr<Group>& shared_group() const { return group_; }
  Rank rank() const { return rank_; }

  // Errors (bad input): of the request and its pointers; kUnsupported: this path cannot run it.
  Result<const Prepared*> prepare(const Request& request, By by);
  // What its kernel gets. `scalar`: null, or an element in device memory that contributions are multiplied by.
  exec::device::Frame frame(const Prepared& prepared, const Request& request, const void* scalar) const;

  // Queues what comes before and after the operation in its stream. It follows this rank's operation before it,
  // whatever stream that is in; not in captured streams, whose graphs say what follows what. Requires: the calling
  // thread uses this rank's device.
  Status enter(const Prepared& prepared, const Request& request, Stream stream);
  Status leave(const Prepared& prepared, const Request& request, Stream stream);
  // The same of what has no request.
  Status enter(Stream stream);
  Status leave(Stream stream);

  // Waits for what was queued, but not for replays of graphs.
  Status finish();

  const Prepared* last() const { return last_; }

 private:
  // Do all ranks reach each other's buffers of this call? All of them say the same.
  bool reaches(const Request& request) const;
  Status place(Prepared& prepared);
  Result<Prepared> lower(const Request& request, const schedule::Task& task, const schedule::Plan& plan) const;

  std::shared_ptr<Group> group_;
  Rank rank_;
  std::unordered_map<session::PlanKey, Prepared, session::PlanKeyHash> prepared_;
  std::size_t program_room_used_ = 0;
  const Prepared* last_ = nullptr;
  std::unique_ptr<net::cuda::Event> done_;  // null: nothing was queued yet
};

}  // namespace weft::stream
