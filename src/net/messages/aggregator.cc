#include "net/messages/aggregator.h"

#include <utility>

namespace weft::net::messages {

using protocol::End;
using protocol::Operation;

namespace {

constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::seconds kForStragglers{1};  // since something moved last; then its own rank may leave

Rank behind(const bootstrap::Meeting& meeting) { return static_cast<Rank>(meeting.ranks.size()); }

}  // namespace

Aggregator::Aggregator(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting,
                       std::chrono::milliseconds timeout, FoldOf fold_of, const Endpoint::MakeCarrier& make_carrier)
    : fold_of_(fold_of),
      number_(behind(meeting)),
      endpoint_(capabilities, std::move(meeting), number_, timeout, make_carrier),
      thread_([this](const std::stop_token& stopped) { run(stopped); }) {}

Aggregator::~Aggregator() {
  thread_.request_stop();
  thread_.join();
}

void Aggregator::run(const std::stop_token& stopped) {
  for (auto moved_at = Clock::now(); !endpoint_.failures().broken_by();) {
    const bool moved = endpoint_.pump_all();
    if (sum_all() || moved) {
      moved_at = Clock::now();
      continue;
    }
    if (stopped.stop_requested() && !holds_parts() &&
        (!endpoint_.any_stays() || Clock::now() - moved_at > kForStragglers))
      return;
    endpoint_.give_back();
    look_for_failures();
    endpoint_.sleep(kPause);
  }
}

// True: something was summed.
bool Aggregator::sum_all() {
  bool any = false;
  missing_ = -1;
  for (Rank r = 0; r < endpoint_.ranks(); ++r)
    for (int strand = 0; strand < kStrands; ++strand)
      while (sum(r, strand)) any = true;
  return any;
}

// The sum to which the next message of `from` belongs.
bool Aggregator::sum(Rank from, int strand) {
  const auto part = endpoint_.part_of_sum(from, strand);
  if (!part || endpoint_.failures().broken_by()) return false;
  Operation operation{.bytes = part->bytes};
  for (Rank i = 0; i < part->sum.count; ++i) {
    const Rank member = part->sum.member(i);
    const auto other = endpoint_.part_of_sum(member, strand);
    if (!other) missing_ = member;
    if (!other || other->sum != part->sum) return false;  // that one's next sum is another
    if (other->tag != part->tag || other->bytes != part->bytes) {
      endpoint_.failures().break_off(member, fabric::Cause::kDiffers);
      return false;
    }
    const End end{.kind = End::Kind::kMessage, .strand = static_cast<std::int16_t>(strand), .peer = member};
    operation.sources.push_back(end);
    operation.destinations.push_back(end);
  }
  const fabric::Fold fold = fold_of_(part->sum.reduction);
  if (fold == nullptr) {
    endpoint_.failures().break_off(from);
    return false;
  }
  endpoint_.begin({.fold = fold, .everybody = false, .signature = part->tag});
  if (!endpoint_.ready(strand, operation)) return false;
  endpoint_.post(strand, operation);
  return true;
}

bool Aggregator::holds_parts() {
  if (endpoint_.unsettled() >= 0) return true;
  for (Rank r = 0; r < endpoint_.ranks(); ++r)
    for (int strand = 0; strand < kStrands; ++strand)
      if (endpoint_.part_of_sum(r, strand)) return true;
  return false;
}

// Ranks learn whom they wait for, and of a death although they are not connected with the rank that died.
void Aggregator::look_for_failures() {
  endpoint_.failures().say_awaited(missing_ < 0 ? std::vector<Rank>{} : std::vector{missing_},
                                   FailureDetector::kLately);
  if (missing_ >= 0) endpoint_.compare_calls(missing_);
  const bool left = missing_ >= 0 && !endpoint_.failures().end_of(missing_).empty();
  if (const Rank died = left ? missing_ : endpoint_.failures().died(); died >= 0) endpoint_.failures().break_off(died);
  if (endpoint_.failures().failure()) endpoint_.failures().break_off(0);
}

}  // namespace weft::net::messages
