// A barrier that can say who has not come: everybody reports to rank 0, which answers with the list of those who have
// not.

#include <algorithm>
#include <thread>

#include "api/session/session.h"
#include "base/counted.h"

namespace weft::session {
namespace {

constexpr std::string_view kName = "monitored_barrier";
constexpr std::chrono::milliseconds kAnswerTime{1000};  // beyond the timeout, for rank 0's answer

std::string list_of(std::span<const std::uint8_t> late) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < late.size(); ++r)
    if (late[r] != 0) ranks.push_back(r);
  return fmt::format("{} {}", plural(ranks.size(), "rank"), fmt::join(ranks, ", "));
}

}  // namespace

Result<std::vector<Rank>> Session::exchange_until(std::span<const Transfer> transfers, Clock::time_point deadline) {
  if (transfers.empty()) return std::vector<Rank>{};
  WEFT_TRY(const Prepared* prepared, planner_.prepare(transfers));
  const Order order{.transfers = transfers, .prepared = prepared, .number = runner_.next_number(), .name = kName};
  runner_.begin(order);
  constexpr std::chrono::microseconds kBriefly{200};
  for (const auto since = Clock::now();;) {
    (void)executor_->stops();  // the poll then fails
    Result<bool> done = executor_->poll();
    if (!done) {  // what has come before the communicator broke still counts
      if (const auto again = executor_->poll(); again && *again) done = true;
    }
    const auto time = Clock::now();
    if (!done || *done || time >= deadline) {
      const std::vector<Rank> missing = done && !*done ? executor_->awaited() : std::vector<Rank>{};
      WEFT_CHECK(runner_.finish(order, done ? Status{} : tl::make_unexpected(done.error())));
      return missing;
    }
    if (time - since < kBriefly)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kBriefly);
  }
}

Status Session::monitored_barrier(std::chrono::milliseconds timeout) {
  WEFT_CHECK(check_timeout(kName, timeout));
  if (timeout.count() == 0) timeout = executor_->timeout();
  WEFT_CHECK(operations_.drain());
  const auto deadline = Clock::now() + timeout;
  const std::uint64_t number = runner_.operations() + 1;  // rank 0 needs two exchanges, the others one
  const Rank n = executor_->ranks(), self = executor_->rank();
  std::vector<std::uint8_t> late(static_cast<std::size_t>(n)), sign(static_cast<std::size_t>(n));
  std::vector<Transfer> reports, answers;
  using Direction = Transfer::Direction;
  const auto one = [&](Direction d, Rank peer) {
    return Transfer{d, peer, &sign[static_cast<std::size_t>(peer)], 1, DataType::kUint8};
  };
  const auto list = [&](Direction d, Rank peer) {
    return Transfer{d, peer, late.data(), late.size(), DataType::kUint8};
  };
  if (self != 0) {
    reports = {one(Direction::kSend, 0), list(Direction::kReceive, 0)};
    WEFT_TRY(const auto missing, exchange_until(reports, deadline + kAnswerTime));
    if (!missing.empty()) late[0] = 1;
  } else {
    for (Rank r = 1; r < n; ++r) reports.push_back(one(Direction::kReceive, r));
    WEFT_TRY(const auto missing, exchange_until(reports, deadline));
    for (const Rank r : missing) late[static_cast<std::size_t>(r)] = 1;
    for (Rank r = 1; r < n; ++r)
      if (late[static_cast<std::size_t>(r)] == 0) answers.push_back(list(Direction::kSend, r));
    WEFT_TRY(const auto unanswered, exchange_until(answers, Clock::now() + kAnswerTime));
    for (const Rank r : unanswered) late[static_cast<std::size_t>(r)] = 1;
  }
  const auto first = std::find(late.begin(), late.end(), 1) - late.begin();
  if (first == static_cast<std::ptrdiff_t>(late.size())) return {};
  auto error = failure(Code::kTimeout, Blame::kCommunicator, "rank {}: {} #{}: waited {} ms for {}", self, kName,
                       number, timeout.count(), list_of(late));
  for (Rank r = 0; r < static_cast<Rank>(late.size()); ++r)
    if (late[static_cast<std::size_t>(r)] != 0) error.value().ranks.push_back(r);
  const Status failed = runner_.fail_and_record(std::move(error));
  // Breaking off may overtake a list that is still under way. So rank 0 breaks off when all others have confirmed
  // theirs, and they wait for that: nothing is sent to them any more, and their exchange ends when the communicator
  // breaks.
  std::vector<Transfer> confirmations;
  for (Rank r = 1; self == 0 && r < n; ++r)
    if (late[static_cast<std::size_t>(r)] == 0) confirmations.push_back(one(Direction::kReceive, r));
  if (self != 0 && late[0] == 0) confirmations = {one(Direction::kSend, 0), one(Direction::kReceive, 0)};
  (void)exchange_until(confirmations, Clock::now() + kAnswerTime);  // the error below is the one to report
  executor_->break_off(static_cast<Rank>(first), fabric::Cause::kTimedOut);
  return failed;
}

}  // namespace weft::session
