// New communicators from one that works: split, and grow.

#include <unistd.h>

#include <algorithm>
#include <type_traits>

#include "api/session/session.h"
#include "base/check.h"

namespace weft::session {
namespace {

// The colour and key that every rank sends every other.
struct Wish {
  std::int64_t color, key;
  std::array<std::uint32_t, 4> nonce;  // the leader's makes its group's secret
  Groups::Card card;
};
static_assert(std::is_trivially_copyable_v<Wish>);

}  // namespace

Status Session::run_inside(Inside call, std::uint64_t count, const Request& request) {
  WEFT_CHECK(operations_.drain());
  runner_.enter(call, count);
  Status status = operations_.run(request);
  runner_.leave();
  return status;
}

Status Session::gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  return run_inside(Inside::kSplit, 0,
                    {.collective = Collective::kAllGather,
                     .in = mine.data(),
                     .out = all.data(),
                     .count = mine.size(),
                     .type = DataType::kUint8});
}

Result<std::shared_ptr<Session>> Session::split(std::int64_t color, std::int64_t key) {
  if (color < Communicator::kNoColor) return bad_input("split: color {} is negative", color);
  if (!groups_) return unsupported("split");
  Wish mine{.color = color, .key = key};
  WEFT_TRY(mine.card, groups_->offer());
  // Not std::random_device: each one asks the processor what it can, which costs a virtual machine 20 us.
  WEFT_ASSERT(getentropy(mine.nonce.data(), sizeof mine.nonce) == 0, "no random bytes");
  std::vector<Wish> all(static_cast<std::size_t>(executor_->ranks()));
  if (Status met = gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all))); !met) {
    groups_->withdraw();
    return tl::make_unexpected(std::move(met.error()));
  }
  ++children_;
  if (color == Communicator::kNoColor) return nullptr;

  std::vector<Rank> members;
  for (Rank r = 0; r < executor_->ranks(); ++r)
    if (all[static_cast<std::size_t>(r)].color == color) members.push_back(r);
  std::stable_sort(members.begin(), members.end(), [&](Rank a, Rank b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });
  std::vector<Groups::Card> cards;
  for (const Rank r : members) cards.push_back(all[static_cast<std::size_t>(r)].card);
  const auto self = std::find(members.begin(), members.end(), executor_->rank()) - members.begin();
  const auto& nonce = all[static_cast<std::size_t>(members.front())].nonce;
  auto joined = groups_->join({.name = fmt::format("split {} color {}", children_, color),
                               .rank = static_cast<Rank>(self),
                               .cards = cards,
                               .secret = fmt::format("{:08x}", fmt::join(nonce, ""))});
  if (!joined) return tl::make_unexpected(not_made("split", std::move(joined.error())));
  // Others may have given this rank up while it was away, and gone on without the group.
  if (Status known = executor_->health(); !known && known.error().code == Code::kTimeout)
    return tl::make_unexpected(not_made("split", std::move(known.error())));
  return joined;
}

// A member that has ended or left breaks this communicator, too: ranks that still wait here learn of it at once.
Error Session::not_made(const char* what, Error error) {
  error.message = fmt::format("rank {}: {}: {}", executor_->rank(), what, error.message);
  const bool died = error.code == Code::kPeerDied;
  if (error.ranks.empty() || runner_.failure() || (!died && error.code != Code::kPeerLeft)) return error;
  executor_->break_off(error.ranks.front(), died ? fabric::Cause::kDied : fabric::Cause::kLeft);
  (void)runner_.fail(tl::make_unexpected(error));
  return error;
}

Result<std::shared_ptr<Session>> Session::grow(UniqueId id, Rank ranks) {
  WEFT_CHECK(check_ranks("grow", ranks));
  if (ranks <= executor_->ranks()) return bad_input("grow: {} ranks are not more than {}", ranks, executor_->ranks());
  if (!groups_) return unsupported("grow");
  WEFT_CHECK(run_inside(Inside::kGrow, static_cast<std::uint64_t>(ranks),
                        {.collective = Collective::kBroadcast,
                         .in = id.bytes.data(),
                         .out = id.bytes.data(),
                         .count = id.bytes.size(),
                         .type = DataType::kUint8}));
  if (id.bytes == UniqueId{}.bytes)  // all ranks read so
    return bad_input("grow: the id is empty; rank 0 passes that of a MeetingPlace");
  was_aborted_ = executor_->aborted();
  // The ranks here may end, or be interrupted, while the new ones are still to come.
  auto met = groups_->meet(id, executor_->rank(), ranks, [this]() -> Status {
    if (stops_groups()) return runner_.intact();
    return executor_->health();
  });
  if (met) return met;
  Error error = not_made("grow", std::move(met.error()));
  if (error.code == Code::kTimeout && !runner_.failure()) error.blame = Blame::kOperation;  // new ranks did not come
  return tl::make_unexpected(std::move(error));
}

Result<std::shared_ptr<Session>> Session::shrink(std::span<const Rank> without) {
  if (!groups_) return unsupported("shrink");
  if (finalized_) return tl::make_unexpected(*runner_.failure());
  was_aborted_ = executor_->aborted();
  executor_->break_off(executor_->rank(), fabric::Cause::kShrinks);  // unless it is broken already
  if (!runner_.failure())
    (void)runner_.fail(failure_of(executor_->rank(), Code::kAborted, Blame::kCommunicator, "rank {}: shrink was called",
                                  executor_->rank()));
  return groups_->survivors(without);
}

// Those who are waited for here may wait themselves, in a call that another rank's death keeps from ending, for ranks
// that have come here: a rank that sees the death breaks the communicator.
Result<Agreement> Session::agree(std::uint64_t bits) {
  if (!groups_) return unsupported("agree");
  if (finalized_) return tl::make_unexpected(*runner_.failure());
  was_aborted_ = executor_->aborted();
  // Calls that need nothing of the dead rank end by themselves, and soon.
  constexpr std::chrono::milliseconds kLookEvery{20}, kFirst{1000}, kLast{5000};
  const auto longest = std::clamp(executor_->timeout() / 6, kFirst, kLast);
  Clock::time_point look_next = Clock::now() + longest;
  const auto usual = std::exchange(groups_->stops, [&] {
    if (const auto now = Clock::now(); now >= look_next) {
      look_next = now + kLookEvery;
      const Status found = executor_->health();
      if (!found && found.error().code == Code::kPeerDied && !found.error().ranks.empty())
        executor_->break_off(found.error().ranks.front(), fabric::Cause::kDied);
      else if (const auto dead = found ? groups_->found_dead() : std::nullopt)
        executor_->break_off(*dead, fabric::Cause::kDied);
    }
    return stops_groups();
  });
  auto agreed = groups_->agree(bits);
  groups_->stops = usual;
  return agreed;
}

tl::unexpected<Error> Session::unsupported(const char* what) const {
  return failure(Code::kUnsupported, Blame::kOperation, "{}: this communicator was made without a way to make others",
                 what);
}

}  // namespace weft::session
