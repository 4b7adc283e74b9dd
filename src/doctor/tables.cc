#include "doctor/tables.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "doctor/cells.h"

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
  if (numbers % 4 == 1 && words[first].find('.') == std::string_view::npos) ++first;
  if (first >= words.size()) return std::nullopt;
  const auto time = number(words[first]);
  if (!time || !std::isfinite(*time) || *time <= 0) return std::nullopt;
  return PerfTable::Row{static_cast<std::int64_t>(*bytes), *time};
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

}  // namespace

PerfTable read_table(std::string_view text) {
  constexpr std::size_t kLongestLine = 1024;
  PerfTable table;
  bool osu = false;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, std::min(end, kLongestLine));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto words = words_of(line, 20);
    if (line.find("OSU ") != std::string_view::npos) osu = true;
    for (const std::string_view name :
         {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce"})
      if (table.collective.empty() && (line.find(std::string(name) + "_perf") != std::string_view::npos))
        table.collective = name == "alltoall" ? "all_to_all" : name;
    if (osu && table.collective.empty() && line.find("llreduce") != std::string_view::npos)
      table.collective = "all_reduce";
    if (const auto at = std::ranges::find(words, "nGpus"); at != words.end() && at + 1 != words.end())
      table.gpus_per_thread = static_cast<int>(number(at[1]).value_or(0));
    read_device(line, words, table);
    if (const auto row = row_of(words))
      table.rows.push_back(*row);
    else if (const auto bytes = words.size() >= 2 ? number(words[0]) : std::nullopt;
             osu && bytes && *bytes >= 1 && *bytes < kMostBytes && number(words[1]).value_or(0) > 0)
      table.rows.push_back({static_cast<std::int64_t>(*bytes), *number(words[1])});
  }
  return table;
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
