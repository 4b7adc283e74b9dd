// How a communicator ends, well or not, and how a rank finds out.

#include <algorithm>

#include "api/session/description.h"
#include "api/session/session.h"
#include "plan/schedule/collective.h"

namespace weft::session {

Status Session::intact() {
  if (failure_) return tl::make_unexpected(*failure_);
  if (executor_->aborted()) [[unlikely]]
    return fail(failure_of(executor_->rank(), Code::kAborted, Blame::kCommunicator, "rank {}: this rank has aborted",
                           executor_->rank()));
  return {};
}

Status Session::status() {
  WEFT_CHECK(intact());
  Status found = executor_->health();
  if (!found) found.error().message = fmt::format("rank {}: {}", executor_->rank(), found.error().message);
  return found;
}

// A call under way ends soon: it looks for this at least every 20 ms while it waits.
void Session::abort(std::string_view why) {
  constexpr std::size_t kMostBytes = 180;
  std::string words(why.substr(0, kMostBytes));
  std::replace_if(
      words.begin(), words.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  if (!words.empty()) executor_->say_why(words);
  executor_->abort();
  const Visit visit(*this);
  executor_->break_off(executor_->rank(), fabric::Cause::kAborted);
}

tl::unexpected<Error> Session::out_of_memory() {
  std::vector<std::byte>().swap(reserve_);
  const std::string words = "no memory was left";
  executor_->say_why(words);
  executor_->abort();
  executor_->break_off(executor_->rank(), fabric::Cause::kAborted);
  auto error = failure(Code::kNoResources, Blame::kCommunicator, "rank {}: {}", executor_->rank(), words);
  error.value().ranks = {executor_->rank()};
  failure_ = error.value();
  return error;
}

Status Session::drain() {
  if (queue_.empty()) return intact();
  const auto last = queue_.back();
  return wait(*last);
}

Status Session::finalize() {
  WEFT_CHECK(drain());
  WEFT_CHECK(finish_tagged());
  WEFT_CHECK(run_inside(Inside::kFinalize, 0, {.collective = Collective::kBarrier}));
  point_to_point().read_all();
  if (const auto peer = point_to_point().unexpected_from()) {
    const Status failed =
        fail(failure_of(*peer, Code::kMismatch, Blame::kCommunicator,
                        "rank {}: finalize: messages have come that no call of rank {} has received: {}",
                        executor_->rank(), executor_->rank(), point_to_point().unexpected()));
    leave_record(*failure_);
    executor_->break_off(*peer, fabric::Cause::kDiffers);
    return failed;
  }
  if (const Rank peer = executor_->unread(); peer >= 0) {
    const Status failed =
        fail(failure_of(peer, Code::kMismatch, Blame::kCommunicator,
                        "rank {}: finalize: rank {} has sent a message that no call of rank {} has received",
                        executor_->rank(), peer, executor_->rank()));
    leave_record(*failure_);
    executor_->break_off(peer, fabric::Cause::kDiffers);
    return failed;
  }
  (void)fail(bad_input("rank {}: the communicator is finalized", executor_->rank()));
  finalized_ = true;
  record(nullptr, "");
  return {};
}

void Session::explain(const Order& o, Error& error) const {
  const fabric::Disagreement found = executor_->disagreement();
  if (found.peer < 0) return;
  const Rank self = executor_->rank();
  error.ranks = {found.peer, self};
  if (o.request == nullptr) {
    error.field = "count or type";
    error.message = fmt::format(
        "what rank {} sent is of another count or type than what rank {} receives, or one of them called a collective",
        found.peer, self);
    return;
  }
  if (!found.own || !found.peers) {
    error.message = fmt::format("rank {} and rank {} called different collectives, sizes or types{}", found.peer, self,
                                found.number == 0 ? "" : fmt::format(", in collective #{} or before", found.number));
    return;
  }
  error.calls = {text_of(*found.peers), text_of(*found.own)};
  error.field = differing_field(*found.peers, *found.own);
  if (error.field.empty()) error.field = schedule::uneven(o.request->collective) ? "counts" : "order of calls";
  error.message = fmt::format("rank {} called {}, rank {} called {} (collective #{} of the communicator): {} differs",
                              found.peer, error.calls[0], self, error.calls[1], found.number, error.field);
}

Error Session::in_context(const Order& o, Error error) const {
  if (error.code == Code::kMismatch) explain(o, error);
  if (!o.name.empty()) {
    error.message = fmt::format("rank {}: {} #{}: {}", executor_->rank(), o.name, o.number, error.message);
    return error;
  }
  if (o.request == nullptr) {
    error.message = fmt::format("rank {}: exchange #{} ({} transfers): {}", executor_->rank(), o.number,
                                o.transfers.size(), error.message);
    return error;
  }
  if (within_ != Inside::kNothing) {
    error.message = fmt::format("rank {}: {} #{}: {}", executor_->rank(), name(within_), o.number, error.message);
    return error;
  }
  error.message =
      fmt::format("rank {}: {} #{} ({} elements, {}): {}", executor_->rank(), schedule::name(o.request->collective),
                  o.number, o.request->count, o.prepared->plan.algorithm->name, error.message);
  return error;
}

}  // namespace weft::session
