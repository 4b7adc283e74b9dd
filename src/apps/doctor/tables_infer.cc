#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/doctor/tables.h"
#include "base/text.h"

namespace weft::doctor {

// nccl-tests before 2.9 left a rank's own part out of the bandwidth of an all_gather: algbw = busbw = (n - 1) / n of
// size / time. One n of all large rows.
static void settle_old_bandwidths(PerfTable& table) {
  constexpr double kLeast = 1, kNear = 0.03;  // GB/s, from where on there are three digits
  std::int64_t ranks = 0;
  std::size_t seen = 0;
  for (const auto& row : table.rows) {
    if (row.algbw < kLeast || row.microseconds <= 0 || row.algbw != row.busbw) continue;
    const double ratio = row.algbw / (static_cast<double>(row.bytes) / row.microseconds * 1e-3);
    const auto n = ratio < 0.99 ? std::llround(1 / (1 - ratio)) : 0;
    if (n < 2 || n > 64 || std::abs(ratio * static_cast<double>(n) / static_cast<double>(n - 1) - 1) > kNear) return;
    if (ranks != 0 && ranks != n) return;
    ranks = n, ++seen;
  }
  if (seen < 2 || (table.ranks > 0 && table.ranks != ranks)) return;
  table.ranks = ranks;
  if (table.collective.empty()) table.collective = "all_gather", table.named = "bandwidths without a rank's own part";
  for (auto& row : table.rows)
    if (row.microseconds > 0) row.algbw = static_cast<double>(row.bytes) / row.microseconds * 1e-3;
}

std::string leave_out_contradictions(PerfTable& table) {
  settle_old_bandwidths(table);
  constexpr double kNear = 0.12, kRounded = 0.02;  // tables print GiB/s as GB/s, and two digits
  const auto own = [](const PerfTable::Row& row) { return static_cast<double>(row.bytes) / row.microseconds * 1e-3; };
  const auto contradicts = [&](const PerfTable::Row& row) {
    return row.microseconds > 0 && row.algbw > 0 &&
           std::abs(own(row) - row.algbw) > kRounded + kNear * std::max(own(row), row.algbw);
  };
  const auto first = std::ranges::find_if(table.rows, contradicts);
  if (first == table.rows.end()) return {};
  std::string said = fmt::format("{} in {:.1f} us are {:.2f} GB/s, and algbw is {:.2f}", format_bytes(first->bytes),
                                 first->microseconds, own(*first), first->algbw);
  std::erase_if(table.rows, contradicts);
  return said;
}

constexpr double kSeveral = 1.5;  // from which on a count is that of one rank of several

// 2 (n - 1) / n = busbw / algbw, or (n - 1) / n, solved for n. Both bandwidths have two digits behind the point: of the
// numbers that they allow, one of whole nodes of eight or two GPUs is likelier. 0: none.
static std::int64_t ranks_by(const PerfTable::Row& row) {
  constexpr double kRounded = 0.005;
  const auto solved = [&](double ratio) { return ratio > 1 ? 2 / (2 - ratio) : ratio < 1 ? 1 / (1 - ratio) : 0; };
  const double guess = solved(row.busbw / row.algbw);
  if (guess < 1.9 || guess >= 4096) return 0;
  const auto nearest = std::llround(guess);
  const double low = solved((row.busbw - kRounded) / (row.algbw + kRounded));
  const double high = solved((row.busbw + kRounded) / (row.algbw - kRounded));
  for (const std::int64_t nodes : {8, 2}) {
    const std::int64_t whole = std::llround(guess / static_cast<double>(nodes)) * nodes;
    const auto n = static_cast<double>(whole);
    if (whole > 0 && low <= n && n <= high) return whole;
  }
  return nearest;
}

Inferred infer_collective(const PerfTable& table, std::int64_t ranks) {
  // The largest row has the most digits of both bandwidths.
  const PerfTable::Row* row = nullptr;
  for (const auto& one : table.rows)
    if (one.algbw > 0 && one.busbw > 0 && (row == nullptr || one.busbw > row->busbw)) row = &one;
  if (row == nullptr) return {};
  const double ratio = row->busbw / row->algbw;
  Inferred found{.reason = fmt::format("{}{}, busbw = {:.3f} algbw", row->reduces ? "an operation" : "no operation",
                                       row->root >= 0 ? " and a root" : "", ratio),
                 .ranks = ranks,
                 .ratio = row->algbw >= 1 ? ratio : 0};  // below, two digits are left of it
  constexpr double kNear = 0.02;
  const auto near = [&](double expected) { return std::abs(ratio - expected) < kNear * expected; };
  const auto n = static_cast<double>(ranks);
  if (ranks == 0) found.ranks = row->parts > kSeveral ? std::llround(row->parts) : ranks_by(*row);
  const bool whole = near(1) && (ranks == 0 || !near((n - 1) / n));
  if (row->root >= 0)
    found.collective = row->reduces ? "reduce" : "broadcast";
  else if (row->reduces && row->parts > kSeveral)  // the count is that of a rank's part
    found.collective = "reduce_scatter";
  else if (row->reduces)
    found.collective = ranks == 2 && near(1) ? "all_reduce" : ratio >= 1 ? "all_reduce" : "reduce_scatter";
  else
    found.collective = whole ? "send_receive" : "all_gather";
  return found;
}

std::vector<std::int64_t> non_monotonic(const PerfTable& table) {
  constexpr double kFaster = 0.8;
  std::vector<const PerfTable::Row*> rows;
  for (const auto& row : table.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, {}, &PerfTable::Row::bytes);
  std::vector<std::int64_t> sizes;
  double slowest = 0;
  for (const auto* row : rows) {
    if (row->microseconds < kFaster * slowest) sizes.push_back(row->bytes);
    slowest = std::max(slowest, row->microseconds);
  }
  return sizes;
}

}  // namespace weft::doctor
