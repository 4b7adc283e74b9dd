#include "api/session/operation_queue.h"

#include <algorithm>

#include "plan/schedule/collective.h"

namespace weft::session {
namespace {

std::vector<std::byte> input_of(const Request& r, const Prepared& prepared) {
  const auto* in = static_cast<const std::byte*>(r.in);
  return {in, in + prepared.buffers.in_bytes};
}

}  // namespace

Status OperationQueue::run(const Request& request) {
  if (!queue_.empty()) {
    WEFT_TRY(const auto pending, start(request));
    return wait(*pending);
  }
  if (!runner_.sound()) WEFT_CHECK(runner_.intact());
  const Prepared* prepared = planner_.again(request);
  if (prepared == nullptr) {
    WEFT_TRY(prepared, planner_.prepare(request));
  }
  Order order{.request = &request, .prepared = prepared};
  // Not copied if there is none: the copy of what the caller has just stored would wait for that store.
  if (request.timeout) [[unlikely]] {
    WEFT_CHECK(check_timeout(schedule::name(request.collective), request.timeout));
    order.timeout = request.timeout;
  }
  AdoptedBuffers adopted;
  if (planner_.has_adopted()) [[unlikely]] {
    adopted = planner_.take_adopted();
    order.adopted = &adopted;
  }
  order.number = runner_.next_number();
  if (request.in != request.out || prepared->may_be_in_place || prepared->copies) [[likely]]
    return runner_.run(order);
  const std::vector<std::byte> input = input_of(request, *prepared);
  order.input = input;
  return runner_.run(order);
}

Status OperationQueue::run(std::span<const Transfer> transfers, Timeout timeout) {
  if (!queue_.empty() || transfers.empty()) {
    WEFT_TRY(const auto pending, start(transfers, timeout));
    return wait(*pending);
  }
  if (!runner_.sound()) WEFT_CHECK(runner_.intact());
  if (timeout) WEFT_CHECK(check_timeout("exchange", timeout));
  WEFT_TRY(const Prepared* prepared, planner_.prepare(transfers));
  return runner_.run(
      {.transfers = transfers, .prepared = prepared, .number = runner_.next_number(), .timeout = timeout});
}

Result<OperationQueue::Started> OperationQueue::start(const Request& request) {
  WEFT_CHECK(runner_.intact());
  WEFT_TRY(const Prepared* prepared, planner_.prepare(request));
  WEFT_CHECK(check_timeout(schedule::name(request.collective), request.timeout));
  Pending pending{.request = request, .prepared = prepared->shared_from_this(), .timeout = request.timeout};
  if (overwrites_input(request)) pending.input = input_of(request, *prepared);
  pending.adopted = planner_.take_adopted();
  return enqueue(std::move(pending));
}

Result<OperationQueue::Started> OperationQueue::start(std::span<const Request> requests) {
  WEFT_CHECK(runner_.intact());
  const exec::Executor& executor = runner_.executor();
  const auto fused = Fused::of(requests, executor.rank(), executor.ranks(), fusion_);
  WEFT_TRY(const Prepared* prepared, planner_.prepare(fused->whole));
  WEFT_CHECK(check_timeout(schedule::name(fused->whole.collective), fused->whole.timeout));
  return enqueue({.request = fused->whole,
                  .prepared = prepared->shared_from_this(),
                  .timeout = fused->whole.timeout,
                  .fused = fused});
}

Result<OperationQueue::Started> OperationQueue::start(std::span<const Transfer> transfers, Timeout timeout) {
  WEFT_CHECK(runner_.intact());
  WEFT_CHECK(check_timeout("exchange", timeout));
  Pending pending{.transfers = {transfers.begin(), transfers.end()}, .timeout = timeout, .done = transfers.empty()};
  if (!pending.done) {
    WEFT_TRY(const Prepared* prepared, planner_.prepare(transfers));
    pending.prepared = prepared->shared_from_this();
  }
  return enqueue(std::move(pending));
}

OperationQueue::Started OperationQueue::enqueue(Pending pending) {
  auto queued = std::make_shared<Pending>(std::move(pending));
  queued->number = runner_.next_number();
  if (queued->done) return queued;
  queue_.push_back(queued);
  poll(*queued);
  return queued;
}

Status OperationQueue::begin_front() {
  if (runner_.failure()) return tl::make_unexpected(*runner_.failure());
  if (runner_.running()) return {};
  const Pending& front = *queue_.front();
  WEFT_CHECK(runner_.make_room(front.order()));
  if (front.fused) front.fused->copy_in();
  runner_.begin(front.order());
  return {};
}

void OperationQueue::end_front(Status status) {
  Pending& front = *queue_.front();
  front.done = true;
  front.status = runner_.finish(front.order(), std::move(status));
  front.adopted = {};
  if (front.fused) {
    if (front.status) front.fused->copy_out();
    front.fused.reset();  // its memory serves the next
  }
  queue_.pop_front();
}

void OperationQueue::poll(const Pending& wanted) {
  while (!queue_.empty() && !wanted.done) {
    Status status = begin_front();
    if (status) {
      const Result<bool> moved = runner_.executor().poll();
      if (moved && !*moved) return;
      status = moved ? runner_.ended(*queue_.front()->prepared) : Status(tl::make_unexpected(moved.error()));
    }
    end_front(std::move(status));
  }
}

bool OperationQueue::poll() {
  const std::size_t before = queue_.size();
  if (before > 0) poll(*Started(queue_.back()));
  return queue_.size() != before;
}

Status OperationQueue::wait(const Pending& wanted) {
  while (!wanted.done) {
    Status status = begin_front();
    if (status) status = runner_.executor().wait();
    if (status) status = runner_.ended(*queue_.front()->prepared);
    end_front(std::move(status));
  }
  return wanted.status;
}

void OperationQueue::wait_for(const Pending& wanted, std::chrono::nanoseconds limit) {
  // The clock counts to less than the largest limit.
  constexpr std::chrono::nanoseconds kNone{0}, kMost = kMostTimeout;
  const auto until = std::chrono::steady_clock::now() + std::clamp(limit, kNone, kMost);
  while (!wanted.done) {
    Status status = begin_front();
    if (status) {
      const Result<bool> finished = runner_.executor().wait_until(until);
      if (finished && !*finished) return;
      status = finished ? runner_.ended(*queue_.front()->prepared) : Status(tl::make_unexpected(finished.error()));
    }
    end_front(std::move(status));
  }
}

Status OperationQueue::drain() {
  if (queue_.empty()) return runner_.intact();
  const Started last = queue_.back();
  return wait(*last);
}

}  // namespace weft::session
