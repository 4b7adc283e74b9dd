#include "compat/nccl_plugins/job_record.h"

#include <algorithm>

namespace weft::compat::plugins {

namespace {

// Calls that may be enqueued ahead. Where more are, this NCCL reports no kernels, and calls end as they are enqueued.
constexpr std::size_t kMostAhead = 4096;
constexpr std::size_t kKept = 1024;  // calls that are over

}  // namespace

JobRecord::Pending* JobRecord::enqueued(Call call) {
  const MutexLock guard(mutex_);
  if (pending_.size() >= kMostAhead && current_ == nullptr) {
    for (const auto& p : pending_)
      if (p->started == 0) p->call.channels = 0;
    tidy();
  }
  pending_.push_back(std::make_unique<Pending>(this, std::move(call)));
  return pending_.back().get();
}

void JobRecord::start(Pending& p) {
  current_ = &p;
  recorder_->begin(++number_, p.call.count, recorder_->label(p.call.label));
}

bool JobRecord::is_over(const Pending& p) const {
  if (p.done()) return true;
  if (!p.host_done || p.started == 0 || p.started != p.stopped) return false;
  return std::ranges::any_of(pending_, [&](const auto& other) { return other.get() != &p && other->started > 0; });
}

void JobRecord::tidy() {
  for (;;) {
    if (current_ != nullptr) {
      if (!is_over(*current_)) return;
      recorder_->end(true);
      const auto at = std::ranges::find(pending_, current_, &std::unique_ptr<Pending>::get);
      over_.push_back(std::move(*at));
      pending_.erase(at);
      if (over_.size() > kKept) over_.pop_front();
      current_->over = true;
      current_ = nullptr;
    }
    Pending* next = nullptr;
    for (const auto& p : pending_)
      if (p->started > 0 || p->done()) {
        next = p.get();
        break;
      }
    if (next == nullptr) return;
    start(*next);
  }
}

void JobRecord::host_done(Pending* p) {
  const MutexLock guard(mutex_);
  if (p->over) return;
  p->host_done = true;
  tidy();
}

bool JobRecord::channel_starts(Pending* p) {
  const MutexLock guard(mutex_);
  if (p->over) return false;
  ++p->started;
  tidy();
  return true;
}

void JobRecord::channel_stops(Pending* p) {
  const MutexLock guard(mutex_);
  if (p->over) return;
  ++p->stopped;
  tidy();
}

void JobRecord::message(bool sends) {
  const MutexLock guard(mutex_);
  recorder_->begin_tagged(sends);
}

}  // namespace weft::compat::plugins
