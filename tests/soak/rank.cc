#include "tests/soak/rank.h"

#include <fmt/format.h>

#include <optional>

#include "base/result.h"
#include "tests/soak/call.h"

namespace weft::soak {
namespace {

constexpr std::int64_t kSubsetEvery = 300;  // calls; a split costs a meeting
constexpr int kAttempts = 20;               // to go on, if more ranks die meanwhile

Status exchange_with_all(Communicator& comm) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(comm.ranks())), in(out.size());
  std::vector<Transfer> transfers;
  for (Rank r = 0; r < comm.ranks(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    transfers.push_back({Transfer::Direction::kSend, r, &out[at], 1, DataType::kInt64});
    transfers.push_back({Transfer::Direction::kReceive, r, &in[at], 1, DataType::kInt64});
  }
  return comm.exchange(transfers);
}

}  // namespace

Status RankContext::make_subset() {
  const std::uint64_t sides = Random(episode_.seed * 1000003 + static_cast<std::uint64_t>(next_)).next();
  WEFT_TRY(subset_, world_.split(static_cast<int>(sides >> (world_.rank() % 64) & 1)));
  return {};
}

Status RankContext::meet() {
  WEFT_CHECK(make_subset());
  WEFT_CHECK(exchange_with_all(subset_));
  WEFT_CHECK(exchange_with_all(world_));
  return world_.barrier();
}

Status RankContext::one_call() {
  if (!subset_ || (next_ > 0 && next_ % kSubsetEvery == 0)) WEFT_CHECK(make_subset());
  // All ranks draw alike, whenever they came.
  Random random(episode_.seed * 1000003 + static_cast<std::uint64_t>(next_));
  Communicator& comm = random.below(4) == 0 ? subset_ : world_;
  WEFT_TRY(wrong_, make(Call::draw(random, comm.ranks()), comm));
  ++next_;
  ++checked_;
  return {};
}

Status RankContext::call_on() {
  while (next_ < episode_.calls && wrong_.empty()) WEFT_CHECK(one_call());
  return wrong_.empty() ? world_.barrier() : Status{};
}

Status RankContext::agree() {
  std::int64_t mine[] = {next_, joined_, shrunk_}, all[3] = {};
  WEFT_CHECK(world_.all_reduce<std::int64_t>(mine, all, ReduceOp::kMax));
  next_ = (all[0] + kSubsetEvery - 1) / kSubsetEvery * kSubsetEvery;  // where subsets are made anew
  joined_ = all[1];
  shrunk_ = all[2];
  subset_ = Communicator(nullptr);
  return {};
}

Status RankContext::grow() {
  const int place = static_cast<int>(++joined_);
  const Rank ranks = world_.ranks() + 1;
  std::optional<MeetingPlace> meeting;
  if (world_.rank() == 0) {
    WEFT_TRY(meeting, MeetingPlace::open(ranks, {.timeout = std::chrono::seconds(60)}));
    board_->post(place, meeting->id(), ranks);
  }
  WEFT_TRY(world_, world_.grow(meeting ? meeting->id() : UniqueId{}, ranks));
  return {};
}

Status RankContext::take_spares_in() {
  while (board_ != nullptr && joined_ < kSpares) {
    WEFT_CHECK(grow());
    WEFT_CHECK(agree());
  }
  return {};
}

Status RankContext::recover() {
  if (subset_) subset_.abort();  // others may have got further, and wait there for this rank
  auto survivors = world_.shrink();
  if (!survivors) {
    left_ = survivors.error().code == Code::kLeftOut;
    return tl::make_unexpected(survivors.error());
  }
  world_ = std::move(*survivors);
  ++shrunk_;
  WEFT_CHECK(agree());
  // Nobody dies any more: who dies while ranks meet may leave some with the new communicator and some without.
  if (world_.ranks() > episode_.ranks - episode_.kills) return {};
  return take_spares_in();
}

std::string RankContext::report() {
  for (int attempts = 0; attempts < kAttempts;) {
    Status status = call_on();
    if (!wrong_.empty()) return "wrong: " + wrong_;
    if (status) return fmt::format("done {} {} {}", checked_, shrunk_, joined_);
    while (!recover() && ++attempts < kAttempts)
      if (left_) return "left";
  }
  return fmt::format("wrong: rank {} of {} does not recover", world_.rank(), world_.ranks());
}

std::string RankContext::join(const Episode& episode, tests::NoticeBoard& board, int place,
                              const ConnectOptions& options) {
  const UniqueId id = board.await(place);
  const Rank ranks = board.ranks(place);
  auto comm = Communicator::connect(id, ranks - 1, ranks, options);
  if (!comm) return "wrong: a spare cannot join: " + comm.error().message;
  RankContext context(episode, std::move(*comm), &board);
  if (const Status agreed = context.agree(); !agreed) return "wrong: a spare cannot agree: " + agreed.error().message;
  if (const Status grown = context.take_spares_in(); !grown)
    return "wrong: a spare cannot grow: " + grown.error().message;
  return context.report();
}

}  // namespace weft::soak
