#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "onesided/pgas/group.h"
#include "onesided/pgas/space.h"
#include "weft/communicator.h"

namespace weft::api {

// Some ranks of a PGAS job that call collectives together: all by the schedules that every communicator uses.
// Thread: one at a time per team; different teams are independent.
class Team {
 public:
  // `shares` is released when the team ends: memory of its connections.
  Team(pgas::Group group, Rank rank, const pgas::Space& space, Communicator comm, std::shared_ptr<void> shares = {})
      : shares_(std::move(shares)), group_(group), rank_(rank), space_(space), comm_(std::move(comm)) {}

  const pgas::Group& group() const { return group_; }
  Rank rank() const { return rank_; }
  Rank ranks() const { return group_.size; }

  // As Communicator::run; symmetric memory is reached without intermediate copies.
  Status run(Request request);
  Status barrier() { return run({.collective = Collective::kBarrier}); }
  void set_interrupt(std::function<bool()> interrupted) {
    const std::lock_guard guard(mutex_);
    comm_.set_interrupt(std::move(interrupted));
  }
  // Everybody's bytes, in the order of ranks; how many those are may differ.
  Status collect(void* to, const void* from, std::size_t bytes);
  // Of `count` elements of `element` bytes for every rank, every to_stride-th and from_stride-th are used.
  Status all_to_all_strided(std::byte* to, const std::byte* from, std::size_t to_stride, std::size_t from_stride,
                            std::size_t count, std::size_t element);
  // Reductions that no element type of weft has: `combine(into, with, count)` is applied in the order of ranks.
  using Combine = void (*)(void* into, const void* with, std::size_t count);
  Status reduce_by(Combine combine, void* to, const void* from, std::size_t count, std::size_t element);

 private:
  std::shared_ptr<void> shares_;  // outlives the communicator
  pgas::Group group_;
  Rank rank_;
  const pgas::Space& space_;
  std::mutex mutex_;
  Communicator comm_;
};

}  // namespace weft::api
