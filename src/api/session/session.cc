#include "api/session/session.h"

#include <algorithm>

namespace weft::session {

Session::Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser, Streams streams)
    : executor_(std::move(executor)),
      runner_(executor_.get()),
      planner_(executor_.get(), ranks_per_node, std::move(chooser), streams),
      operations_(planner_, runner_) {}

Session::~Session() {
  if (recorder_ && recorder_->trace() != nullptr) recorder_->trace()->write_rails();  // while the connections are open
}

void Session::record(std::unique_ptr<recorder::Recorder> recorder, std::string folder) {
  runner_.record(recorder.get(), std::move(folder));
  planner_.record_in(recorder.get());
  recorder_ = std::move(recorder);
}

Status Session::status() {
  WEFT_CHECK(runner_.intact());
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
  const CallGuard::Visit visit(guard);
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
  (void)runner_.fail(error);
  return error;
}

Status Session::finalize() {
  WEFT_CHECK(operations_.drain());
  WEFT_CHECK(finish_tagged());
  WEFT_CHECK(run_inside(Inside::kFinalize, 0, {.collective = Collective::kBarrier}));
  WEFT_CHECK(all_received());
  (void)runner_.fail(bad_input("rank {}: the communicator is finalized", executor_->rank()));
  finalized_ = true;
  record(nullptr, "");
  return {};
}

Status Session::all_received() {
  const Rank self = executor_->rank();
  const auto failed = [&](Rank peer, tl::unexpected<Error> error) {
    Status status = runner_.fail_and_record(std::move(error));
    executor_->break_off(peer, fabric::Cause::kDiffers);
    return status;
  };
  point_to_point().read_all();
  if (const auto peer = point_to_point().unexpected_from())
    return failed(*peer, failure_of(*peer, Code::kMismatch, Blame::kCommunicator,
                                    "rank {}: finalize: messages have come that no call of rank {} has received: {}",
                                    self, self, point_to_point().unexpected()));
  if (const Rank peer = executor_->unread(); peer >= 0)
    return failed(peer, failure_of(peer, Code::kMismatch, Blame::kCommunicator,
                                   "rank {}: finalize: rank {} has sent a message that no call of rank {} has received",
                                   self, peer, self));
  return {};
}

}  // namespace weft::session
