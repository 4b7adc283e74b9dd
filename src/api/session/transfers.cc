#include "api/session/transfers.h"

#include "api/session/arguments.h"

namespace weft::session {

Status check_transfer(const Transfer& t, Rank rank, Rank ranks) {
  if (t.direction != Transfer::Direction::kSend && t.direction != Transfer::Direction::kReceive)
    return bad_input("exchange: direction {} is neither kSend nor kReceive", static_cast<int>(t.direction));
  const char* what = t.direction == Transfer::Direction::kSend ? "send" : "receive";
  if (t.peer < 0 || t.peer >= ranks)
    return bad_input("{}: rank {} is not a peer of rank {} of {}", what, t.peer, rank, ranks);
  WEFT_CHECK(check_type(what, t.type));
  return check_elements(what, t.data, t.count, t.type);
}

std::uint32_t tag_of(const Transfer& t) {
  // Differs from any collective's signature by chance only, and between counts and types.
  const std::uint64_t shape = static_cast<std::uint64_t>(t.count) * 31 + static_cast<std::uint64_t>(t.type) + 1;
  return static_cast<std::uint32_t>((shape * 0x9e3779b97f4a7c15u) >> 32 | 1);
}

Result<std::vector<OwnTransfer>> own_transfers(std::span<const Transfer> transfers, Rank rank) {
  std::vector<Transfer> sends, receives;
  for (const Transfer& t : transfers)
    if (t.peer == rank) (t.direction == Transfer::Direction::kSend ? sends : receives).push_back(t);
  if (sends.size() != receives.size())
    return bad_input("rank {} sends itself {} messages and receives {}: it needs as many of both at the same time",
                     rank, sends.size(), receives.size());
  std::vector<OwnTransfer> pairs;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (sends[i].count != receives[i].count || sends[i].type != receives[i].type)
      return failure(Code::kMismatch, Blame::kInput, "rank {} sends itself {} elements where it receives {}", rank,
                     sends[i].count, receives[i].count);
    pairs.push_back({sends[i], receives[i]});
  }
  return pairs;
}

}  // namespace weft::session
