#include "plan/schedule/exchange/document.h"

namespace weft::schedule {

Proof prove(const Document& document) {
  Proof proof;
  for (const bool in_place : {false, true}) {
    if (!(in_place ? document.in_place : document.out_of_place)) continue;
    proof = verify(document.schedule, {.slots = document.slots, .in_place = in_place});
    if (!proof.ok()) break;
  }
  return proof;
}

std::string locate(const Document& document, std::string_view file, const Finding& finding) {
  const Schedule& s = document.schedule;
  const std::size_t strand = static_cast<std::size_t>(finding.rank * s.lanes + finding.lane);
  if (finding.step < 0 || strand >= document.origins.size()) return fmt::format("{}: {}", file, finding.text);
  const Origin& at = document.origins[strand][static_cast<std::size_t>(finding.step)];
  return fmt::format("{}:{}: gpu {} tb {} step {}: {}", file, at.line, finding.rank, finding.lane, at.step,
                     finding.text);
}

Status check_size(std::int64_t ranks, std::int64_t lanes, std::int64_t chunks, std::int64_t scratch,
                  std::int64_t steps) {
  const auto within = [](std::int64_t value, std::int64_t most, const char* what) -> Status {
    if (value > most) return bad_input("{} {} are more than the {} that are read", value, what, most);
    return {};
  };
  WEFT_CHECK(within(ranks, limits::kRanks, "ranks"));
  WEFT_CHECK(within(lanes, limits::kLanes, "lanes or thread blocks of a rank"));
  WEFT_CHECK(within(chunks, limits::kCells, "chunks"));
  WEFT_CHECK(within(scratch, limits::kCells, "scratch slots"));
  WEFT_CHECK(within(ranks * (2 * chunks + scratch), limits::kCells, "chunks and slots of all ranks"));
  WEFT_CHECK(within(steps, limits::kMoves, "steps"));
  WEFT_CHECK(within(ranks * lanes * ranks, limits::kConnections, "connections"));
  return within((ranks * lanes + steps) * ranks * lanes, limits::kClocks, "clocks of strands at steps");
}

}  // namespace weft::schedule
