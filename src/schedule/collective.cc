#include "schedule/collective.h"

#include <algorithm>

#include "base/check.h"

namespace weft::schedule {

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kBroadcast:
      return "broadcast";
  }
  return "?";
}

Result<Collective> parse_collective(std::string_view text) {
  std::string known;
  for (Collective c : kCollectives) {
    if (name(c) == text) return c;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name(c));
  }
  return bad_input("unknown collective '{}'; there are {}", text, known);
}

bool holds(Collective collective, Buffer buffer, int chunk, Rank rank, Rank, Rank root) {
  const bool input = buffer == Buffer::kIn;
  switch (collective) {
    case Collective::kAllReduce:
      return true;
    case Collective::kAllGather:
      return !input || chunk == rank;
    case Collective::kReduceScatter:
      return input || chunk == rank;
    case Collective::kBroadcast:
      return !input || rank == root;
  }
  return false;
}

bool contributes(Collective collective, Rank contributor, int chunk, Rank root) {
  return holds(collective, Buffer::kIn, chunk, contributor, 0, root);
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

double bus_factor(Collective collective, Rank ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (n - 1) / n;
    case Collective::kBroadcast:
      return 1;
  }
  return 1;
}

Layout::Layout(Collective collective, Rank ranks, int chunks, Bytes elements, Bytes element_bytes)
    : collective_(collective), chunks_(chunks), element_bytes_(element_bytes), bytes_(elements * element_bytes) {
  WEFT_REQUIRE(chunks > 0 && element_bytes > 0 && elements >= 0);
  const bool owned = collective == Collective::kAllGather || collective == Collective::kReduceScatter;
  WEFT_REQUIRE(!owned || (chunks == ranks && elements % chunks == 0), "{} elements, {} chunks", elements, chunks);
  constexpr Bytes kLine = 64;
  const Bytes grain = owned || kLine % element_bytes != 0 ? element_bytes : kLine;
  const Bytes even = (bytes_ + chunks - 1) / chunks;
  stride_ = (even + grain - 1) / grain * grain;
}

Bytes Layout::offset(Buffer buffer, int chunk) const {
  const bool single = (collective_ == Collective::kAllGather && buffer == Buffer::kIn) ||
                      (collective_ == Collective::kReduceScatter && buffer == Buffer::kOut);
  return single ? 0 : begin(chunk);
}

}  // namespace weft::schedule
