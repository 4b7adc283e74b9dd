// Sends and receives with tags: how a rank waits for them.

#include "api/session/session.h"
#include "api/session/transfers.h"

namespace weft::session {
namespace {

Status check(const TaggedOperation& o, Rank ranks) {
  const char* what = o.sends ? "send" : "receive";
  if ((o.peer < 0 || o.peer >= ranks) && (o.sends || o.peer != kAnySource))
    return bad_input("{}: rank {} is none of {}", what, o.peer, ranks);
  if (o.tag < 0 && (o.sends || o.tag != kAnyTag)) return bad_input("{}: tag {} is negative", what, o.tag);
  WEFT_CHECK(check_timeout(what, o.timeout));
  WEFT_CHECK(check_type(what, o.type));
  return check_elements(what, o.data, o.count, o.type);
}

}  // namespace

PointToPoint& Session::point_to_point() {
  if (!point_to_point_) {
    point_to_point_ = std::make_unique<PointToPoint>(executor_->lane(), executor_->rank(), executor_->ranks());
    executor_->beside(point_to_point_.get());
  }
  return *point_to_point_;
}

Result<Session::Tagged> Session::start(TaggedOperation operation) {
  WEFT_CHECK(check(operation, executor_->ranks()));
  if (!runner_.sound()) WEFT_CHECK(runner_.intact());
  auto started = std::make_shared<TaggedOperation>(std::move(operation));
  if (started->timeout) started->since = Clock::now();
  if (recorder_) recorder_->begin_tagged(started->sends);
  point_to_point().begin(started);
  return started;
}

// What broke the communicator also ends what was started.
Status Session::break_tagged(const TaggedOperation& o, Error error) {
  error.message = fmt::format("rank {}: {}: {}", executor_->rank(), o.text(), error.message);
  if (error.blame == Blame::kOperation) return tl::make_unexpected(std::move(error));
  if (!runner_.failure()) (void)runner_.fail_and_record(tl::make_unexpected(std::move(error)));
  point_to_point().fail_all(*runner_.failure());
  return tl::make_unexpected(*runner_.failure());
}

// Of one operation only, if its bytes are not on their way; if they are, `stuck` ends the communicator.
void Session::time_out(const Tagged& o, std::chrono::milliseconds waited, bool stuck) {
  PointToPoint& all = point_to_point();
  const std::string others = o->sends ? "" : all.unexpected();
  Error error{Code::kTimeout, Blame::kOperation, ""};
  if (o->peer >= 0) error.ranks = {o->peer};
  const std::string why = o->sends ? fmt::format("rank {} has not received it", o->peer)
                          : o->partner >= 0
                              ? fmt::format("rank {} has announced it and not sent it", o->partner)
                              : fmt::format("no such message has come{}",
                                            others.empty() ? "" : fmt::format("; those that wait are of {}", others));
  error.message = fmt::format("rank {}: {}: waited {} ms: {}", executor_->rank(), o->text(), waited.count(), why);
  if (all.cancel(o, error) || !stuck) return;
  const Rank partner = o->sends ? o->peer : o->partner;
  error.blame = Blame::kCommunicator;
  error.ranks = {partner};
  error.message += "; its bytes are on their way, so that the communicator is broken";
  executor_->break_off(partner, fabric::Cause::kTimedOut);
  (void)runner_.fail(tl::make_unexpected(error));
  all.fail_all(error);
}

Result<bool> Session::test(const Tagged& o) {
  PointToPoint& all = point_to_point();
  if (!o->done) all.progress();
  if (!o->done) operations_.poll();
  if (!o->done) {
    Status known = runner_.intact();
    if (const auto now = Clock::now(); known && now - looked_ >= std::chrono::milliseconds(20)) {
      looked_ = now;
      known = executor_->health();
    }
    if (known && all.fault()) known = tl::make_unexpected(*all.fault());
    if (!known) (void)break_tagged(*o, known.error());
    if (!known && !o->done) all.cancel(o, known.error());
  }
  if (!o->done && o->timeout && o->timeout->count() > 0 && Clock::now() - o->since >= *o->timeout)
    time_out(o, *o->timeout, false);
  if (o->done && !o->status) return tl::make_unexpected(o->status.error());
  return o->done;
}

Status Session::wait(const Tagged& o) {
  PointToPoint& all = point_to_point();
  if (!o->done) all.progress();
  if (o->done) [[likely]]
    return o->status;
  if (const Status whole = runner_.intact(); !whole) {
    all.fail_all(whole.error());
    return o->status;
  }
  const auto limit = o->timeout.value_or(runner_.timeout());
  const bool limited = limit.count() > 0 && limit < Runner::kForEver;
  auto moved_at = Clock::now();
  const auto since = o->timeout ? o->since : moved_at;
  const auto own_limit =
      runner_.timeout().count() > 0 ? runner_.timeout() : Runner::kForEver;  // of one whose bytes are on their way
  const auto ask = [&] { return all.awaited(*o); };
  executor_->moved();
  runner_.keep_time(true);
  bool alone = false;
  Status result;              // of the wait, where the operation goes on
  constexpr int kShort = 64;  // looks at the peers, some microseconds: shorter waits are not recorded
  int looks = 0;
  while (!o->done) {
    if (++looks == kShort && recorder_) recorder_->waits_for_tagged(o->sends, o->peer, o->tag, o->bytes());
    bool moved = all.progress();
    if (o->done) break;
    moved |= operations_.poll();
    Status status;
    if (runner_.failure()) status = tl::make_unexpected(*runner_.failure());
    if (status && all.fault()) {
      executor_->break_off(all.fault()->ranks.front(), fabric::Cause::kFailed);
      status = tl::make_unexpected(*all.fault());
    }
    if (status && moved) {
      moved_at = Clock::now();
      executor_->moved();
      alone = false;
      continue;
    }
    if (status) status = executor_->pause(ask);
    if (!status) {
      result = break_tagged(*o, status.error());
      break;
    }
    if (limited && Clock::now() - since >= limit) {
      // Bytes that are on their way have as long as the communicator lets them.
      time_out(o, limit, Clock::now() - moved_at >= std::max(limit, own_limit));
    } else if (o->peer == kAnySource && executor_->ranks() > 1 && ask().empty() && !o->done) {
      if (std::exchange(alone, true))  // what they sent before they left has been taken in
        all.cancel(o, failure(Code::kPeerLeft, Blame::kOperation, "rank {}: {}: all other ranks have left",
                              executor_->rank(), o->text())
                          .value());
    }
  }
  if (looks >= kShort && recorder_) recorder_->waits_no_more();
  runner_.keep_time(false);
  executor_->moved();
  return o->done ? o->status : result;
}

// What was sent must have gone, and what has come must have been received.
Status Session::finish_tagged() {
  if (!point_to_point_) return {};
  while (point_to_point_->pending()) {
    const Tagged open = point_to_point_->unfinished();
    if (!open) {
      point_to_point_->progress();
      continue;
    }
    WEFT_CHECK(wait(open));
  }
  return {};
}

}  // namespace weft::session
