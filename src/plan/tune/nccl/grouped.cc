#include "plan/tune/nccl/grouped.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/text.h"
#include "plan/schedule/collective.h"
#include "plan/tune/nccl/constants.h"

namespace weft::tune::nccl {
namespace {

using protocol::Protocol;

constexpr Bytes kLLOfChannel = Bytes{16} << 10;  // NCCL_P2P_LL_THRESHOLD
constexpr Bytes kStepOfLL = Bytes{64} << 10;     // a step of LL's buffer, lines with their flags
constexpr int kPeersOfBlock = 8;                 // NCCL_MAX_DEV_WORK_P2P_PER_BATCH

// What every peer of a group, up to those that a block takes at once, adds to its start. Fitted with the launches and
// hops of LL of data/protocol/hop_costs.json to alltoall below 64 KiB of A100 (NCCL 2.27.3), H100 (2.29.2), B200
// (2.27.5, 2.29.2) and GB200 (2.29.2) on 2, 4 and 8 GPUs, aiconfigurator-core 0.12.0, which takes 0.5 to 5 us longer
// than all_gather there.
constexpr double kStartOfPeer = 0.25;  // us

int power_above(int n) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1, n)))); }

// How a message between two ranks is sent.
struct Sent {
  Protocol protocol = Protocol::kSimple;
  int channels = 1;
};

// Channels of all peers together, and of one, at the least and at the most.
struct Channels {
  int all = 1, least = 1, most = 1;
};
Channels shares_of(const System& s) {
  Channels c;
  c.all = power_above(s.channels);
  c.most = std::min(c.all, power_above(std::min(s.channels, s.peer_channels)));
  c.least = c.most;
  while (c.least * s.ranks > c.all && c.least > 1) c.least /= 2;
  return c;
}

Bytes step_of(const System& s) { return s.nodes == 1 && s.ring.nvlink ? Bytes{512} << 10 : Bytes{128} << 10; }

int parts_of(const System& s, const Channels& c, Bytes bytes, Bytes step) {
  const Bytes least = s.nodes > 1 ? step / 2 : step / 8, most = s.nodes > 1 ? step : step * 32;
  const auto divided = [&](int n) { return (bytes + n - 1) / n; };
  int parts = static_cast<int>(std::clamp<Bytes>((bytes + least - 1) / least, 1, c.least));
  while (std::max(least, divided(parts)) > most && parts <= c.most / 2) parts *= 2;
  return parts;
}

Sent sent(const System& s, Bytes bytes) {
  const Channels c = shares_of(s);
  if (!of_release(s.release).ll_by_peer) {  // the channels are those of Simple
    const int parts = parts_of(s, c, bytes, step_of(s));
    return {bytes <= parts * kLLOfChannel ? Protocol::kLL : Protocol::kSimple, parts};
  }
  const bool ll = bytes <= c.most * kLLOfChannel;
  return {ll ? Protocol::kLL : Protocol::kSimple, parts_of(s, c, bytes, ll ? kStepOfLL : step_of(s))};
}

// What one peer gets.
Bytes part_of(const System& s, Collective collective, Bytes bytes) {
  return collective == Collective::kSendReceive ? bytes : bytes / s.ranks;
}

}  // namespace

bool is_grouped(Collective collective) {
  switch (schedule::even_form(collective)) {
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kSendReceive:
      return true;
    default:
      return false;
  }
}

int channels_to_peer(const System& s) { return shares_of(s).most; }

std::vector<Row> grouped_rows(const System& s, Collective collective, Bytes bytes) {
  WEFT_REQUIRE(is_grouped(collective));
  Sent how = sent(s, part_of(s, collective, bytes));
  // More peers than a block takes are served by more channels, which here carry a part of every message instead.
  const Channels c = shares_of(s);
  const bool many = collective != Collective::kSendReceive && s.ranks > kPeersOfBlock;
  if (many && how.protocol == Protocol::kSimple) how.channels = std::max(how.channels, c.all / kPeersOfBlock);
  std::vector<Row> rows;
  for (const Protocol p : {Protocol::kLL, Protocol::kSimple}) {
    Row& row = rows.emplace_back(Row{.algorithm = Algorithm::kSendRecv, .protocol = p});
    row.timed = false;
    row.possible = s.ranks > 1 && (p == Protocol::kSimple || !s.only_simple);
    if (s.only_simple) how.protocol = Protocol::kSimple;
    if (!row.possible) row.reason = s.ranks == 1 ? "one rank" : "the network's plugin allows Simple only";
    row.channels = how.channels;
    row.threads = 640;
    row.slice = p == Protocol::kSimple ? step_of(s) : protocol::traits(p).slice_bytes;
    row.staging = Duration::microseconds(kStartOfPeer) * std::min(s.ranks, kPeersOfBlock);
    row.chosen = row.possible && p == how.protocol;
  }
  return rows;
}

std::string grouped_rule(const System& s, Collective collective, Bytes bytes) {
  const Bytes part = part_of(s, collective, bytes);
  const bool by_peer = of_release(s.release).ll_by_peer;
  const Bytes most = by_peer ? shares_of(s).most * kLLOfChannel : sent(s, part).channels * kLLOfChannel;
  return fmt::format("LL for up to {} to a peer ({}), of which there are {}", format_bytes(most),
                     by_peer ? "16 KiB for every channel of a peer" : "16 KiB for every channel that it would use",
                     format_bytes(part));
}

}  // namespace weft::tune::nccl
