// How a communicator ends, well or not, and how a rank finds out.

#include <algorithm>

#include "session/session.h"

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

Status Session::drain() {
  if (queue_.empty()) return intact();
  const auto last = queue_.back();
  return wait(*last);
}

Status Session::finalize() {
  WEFT_CHECK(drain());
  WEFT_CHECK(finish_tagged());
  finalizing_ = true;
  const Status met = run({.collective = Collective::kBarrier});
  finalizing_ = false;
  WEFT_CHECK(met);
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
  record(nullptr, "");
  return {};
}

}  // namespace weft::session
