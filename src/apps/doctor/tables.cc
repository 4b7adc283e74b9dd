#include "apps/doctor/tables.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/doctor/cells.h"
#include "apps/doctor/line.h"

namespace weft::doctor {
namespace {

std::vector<std::string_view> words_of(std::string_view line, std::size_t most) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size() && words.size() < most;) {
    const auto begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, at - begin));
  }
  return words;
}

constexpr double kMostBytes = 1e15;

// A row of nccl-tests or weft: number number word … number: the first number behind the words, or the second where the
// first is a root.
std::optional<PerfTable::Row> row_of(const std::vector<std::string_view>& words) {
  if (words.size() < 6) return std::nullopt;
  const auto bytes = number(words[0]), count = number(words[1]);
  if (!bytes || !count || number(words[2]) || *bytes < 1 || *bytes > kMostBytes) return std::nullopt;
  std::size_t first = 3;
  while (first < words.size() && !number(words[first])) ++first;
  // With a root there are five numbers in front of the end or of a word, or nine, or thirteen.
  std::size_t numbers = 0;
  while (first + numbers < words.size() && (number(words[first + numbers]) || words[first + numbers] == "N/A"))
    ++numbers;
  PerfTable::Row row{.bytes = static_cast<std::int64_t>(*bytes)};
  for (std::size_t i = 3; i < first; ++i) row.reduces = row.reduces || words[i] != "none";
  if (numbers % 4 == 1 && words[first].find('.') == std::string_view::npos) {
    row.root = static_cast<int>(number(words[first]).value_or(-1));
    ++first;
  }
  if (first >= words.size()) return std::nullopt;
  const auto time = number(words[first]);
  if (!time || !std::isfinite(*time) || *time <= 0) return std::nullopt;
  row.microseconds = *time;
  if (first + 2 < words.size()) {
    row.algbw = number(words[first + 1]).value_or(0);
    row.busbw = number(words[first + 2]).value_or(0);
  }
  return row;
}

// "#  Rank  3 Group  0 Pid 4711 on  node1 device  3 [0x1b] NVIDIA H100 80GB HBM3"
void read_device(std::string_view line, const std::vector<std::string_view>& words, PerfTable& table) {
  const auto rank = std::ranges::find(words, "Rank"), on = std::ranges::find(words, "on"),
             device = std::ranges::find(words, "device");
  if (rank == words.end() || on == words.end() || device == words.end() || on + 1 != device - 1) return;
  ++table.ranks;
  table.hosts.emplace(on[1]);
  if (const auto bracket = line.find(']'); bracket != std::string_view::npos && bracket + 2 < line.size())
    table.gpu = line.substr(bracket + 2);
  while (!table.gpu.empty() && (table.gpu.back() == '\r' || table.gpu.back() == ' ')) table.gpu.pop_back();
}

// Names in the lines around a table, and weft's.
constexpr std::pair<std::string_view, std::string_view> kProgrammes[] = {
    {"all_reduce_perf", "all_reduce"},
    {"all_gather_perf", "all_gather"},
    {"reduce_scatter_perf", "reduce_scatter"},
    {"alltoall_perf", "all_to_all"},
    {"broadcast_perf", "broadcast"},
    {"reduce_perf", "reduce"},
    {"sendrecv_perf", "send_receive"},
    {"gather_perf", "gather"},
    {"scatter_perf", "scatter"},
    {"Allreduce Latency", "all_reduce"},
    {"All-Reduce", "all_reduce"},
    {"Allgather Latency", "all_gather"},
    {"All-Gather", "all_gather"},
    {"Reduce_scatter Latency", "reduce_scatter"},
    {"Alltoall", "all_to_all"},
    {"All-to-All", "all_to_all"},
    {"Broadcast Latency", "broadcast"},
    {"Benchmarking Allreduce", "all_reduce"},
    {"Benchmarking Allgather", "all_gather"},
    {"Benchmarking Reduce_scatter", "reduce_scatter"},
    {"Benchmarking Bcast", "broadcast"},
    {"Benchmarking Reduce", "reduce"},
    {"osu_allreduce", "all_reduce"},
    {"osu_allgather", "all_gather"},
    {"osu_reduce_scatter", "reduce_scatter"},
    {"osu_bcast", "broadcast"}};

// Reads the lines around a table, its rows, and those of OSU ("size time") and IMB ("size repetitions t_min t_max
// t_avg").
class TableReader {
 public:
  void line(std::string_view text) {
    const auto words = words_of(text, 20);
    if (text.find("OSU ") != std::string_view::npos) osu_ = true;
    if (text.find("t_avg[usec]") != std::string_view::npos) imb_ = true;
    for (const auto& [theirs, ours] : kProgrammes)
      if (table.collective.empty() && text.find(theirs) != std::string_view::npos) table.collective = ours;
    if (const auto at = std::ranges::find(words, "nGpus"); at != words.end() && at + 1 != words.end())
      table.gpus_per_thread = static_cast<int>(number(at[1]).value_or(0));
    if (const auto at = text.find("#processes = "); at != std::string_view::npos)
      table.ranks = std::max<std::int64_t>(table.ranks, number_at(text, at + 13));
    read_device(text, words, table);
    if (const auto row = row_of(words)) {
      table.rows.push_back(*row);
      return;
    }
    const auto bytes = words.size() >= 2 ? number(words[0]) : std::nullopt;
    const bool size = bytes && *bytes >= 1 && *bytes < kMostBytes;
    const std::size_t column = imb_ ? 4 : 1;
    if ((osu_ || imb_) && size && words.size() > column && number(words[column]).value_or(0) > 0)
      table.rows.push_back({.bytes = static_cast<std::int64_t>(*bytes), .microseconds = *number(words[column])});
    else if (size && words.size() >= 3 && number(words[1]) && is_type(words[2]))
      ++table.cut;
  }
  PerfTable table;

 private:
  static bool is_type(std::string_view word) {
    return std::ranges::any_of(table_words(), [&](std::string_view type) { return word.starts_with(type.substr(1)); });
  }
  bool osu_ = false, imb_ = false;
};

}  // namespace

PerfTable read_table(std::string_view text) {
  constexpr std::size_t kLongestLine = 1024;
  TableReader reader;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, std::min(end, kLongestLine));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    reader.line(strip_launcher(line).text);
  }
  return std::move(reader.table);
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
                 .ranks = ranks};
  constexpr double kNear = 0.02;
  const auto near = [&](double expected) { return std::abs(ratio - expected) < kNear * expected; };
  const auto n = static_cast<double>(ranks);
  if (ranks == 0) {
    // 2 (n - 1) / n and (n - 1) / n, solved for n.
    const double guess = ratio > 1 ? 2 / (2 - ratio) : ratio < 1 ? 1 / (1 - ratio) : 0;
    if (guess >= 1.9 && guess < 4096) found.ranks = std::llround(guess);
  }
  const bool whole = near(1) && (ranks == 0 || !near((n - 1) / n));
  if (row->root >= 0)
    found.collective = row->reduces ? "reduce" : "broadcast";
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

const std::vector<std::string_view>& table_words() {
  static const std::vector<std::string_view> kWords = {" float", " half",  " double", " bfloat16", " int8",
                                                       " int32", " int64", " uint",   " fp8",      " f8e"};
  return kWords;
}

bool has_wrong_elements(std::string_view line) {
  const auto words = words_of(line, 16);
  if (words.size() < 8 || !number(words[0]) || !number(words[1]) || number(words[2])) return false;
  // Behind the type: words of the operation, a root, then groups of four numbers.
  std::size_t first = 3;
  while (first < words.size() && !number(words[first])) ++first;
  std::size_t numbers = words.size() - first;
  if (numbers % 4 == 1) ++first, --numbers;
  if (numbers != 4 && numbers != 8) return false;
  for (std::size_t column = first + 3; column < words.size(); column += 4)
    if (const auto wrong = number(words[column]); wrong && *wrong >= 1) return true;
  return false;
}

}  // namespace weft::doctor
