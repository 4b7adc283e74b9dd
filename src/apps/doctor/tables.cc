#include "apps/doctor/tables.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/doctor/cells.h"
#include "apps/doctor/line.h"
#include "apps/doctor/tables_json.h"
#include "base/counted.h"

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

// The columns of one half of a row: time, algbw, busbw, #wrong. nccl-tests before 2.12 printed an error instead of a
// number of wrong elements, which is below 1.
struct Half {
  double time = 0, algbw = 0, busbw = 0;
  std::int64_t wrong = 0;
};
std::optional<Half> half_of(const std::vector<std::string_view>& words, std::size_t first) {
  if (first >= words.size()) return std::nullopt;
  const auto value = [&](std::size_t i) { return i < words.size() ? number(words[i]).value_or(0) : 0; };
  Half half{value(first), value(first + 1), value(first + 2)};
  if (!std::isfinite(half.time) || half.time <= 0) return std::nullopt;
  const double wrong = value(first + 3);
  if (wrong >= 1 && wrong < kMostBytes) half.wrong = static_cast<std::int64_t>(wrong);
  return half;
}

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
    ++first, --numbers;
  }
  const auto half = half_of(words, first);
  if (!half) return std::nullopt;
  row.microseconds = half->time, row.algbw = half->algbw, row.busbw = half->busbw;
  if (numbers >= 4) row.wrong = half->wrong;
  if (numbers >= 8)
    if (const auto second = half_of(words, first + 4)) row.in_place = second->time, row.wrong += second->wrong;
  return row;
}

// "# OSU MPI-CUDA Allreduce Latency Test v7.2": what is between the kind of MPI and "Test".
std::string_view osu_title(std::string_view line) {
  const auto begin = line.find("OSU "), end = line.find(" Test");
  return begin == std::string_view::npos || end == std::string_view::npos || end < begin
             ? std::string_view()
             : line.substr(begin, end - begin);
}

// Names in the lines around a table, and weft's. Longer names stand before those that they contain.
struct Name {
  std::string_view theirs, ours;
};
constexpr Name kProgrammes[] = {{"all_reduce_perf", "all_reduce"},
                                {"all_gather_perf", "all_gather"},
                                {"reduce_scatter_perf", "reduce_scatter"},
                                {"alltoallv_perf", "all_to_all"},
                                {"alltoall_perf", "all_to_all"},
                                {"broadcast_perf", "broadcast"},
                                {"all_reduce_bias_perf", "all_reduce"},
                                {"reduce_perf", "reduce"},
                                {"sendrecv_perf", "send_receive"},
                                {"gather_perf", "gather"},
                                {"scatter_perf", "scatter"},
                                {"Benchmarking Allreduce", "all_reduce"},
                                {"Benchmarking Allgather", "all_gather"},
                                {"Benchmarking Reduce_scatter", "reduce_scatter"},
                                {"Benchmarking Alltoall", "all_to_all"},
                                {"Benchmarking Bcast", "broadcast"},
                                {"Benchmarking Reduce", "reduce"},
                                {"Benchmarking Gather", "gather"},
                                {"Benchmarking Scatter", "scatter"},
                                {"osu_allreduce", "all_reduce"},
                                {"osu_allgather", "all_gather"},
                                {"osu_reduce_scatter", "reduce_scatter"},
                                {"osu_alltoall", "all_to_all"},
                                {"osu_bcast", "broadcast"},
                                {"osu_gather", "gather"},
                                {"osu_scatter", "scatter"},
                                {"osu_reduce", "reduce"}};
constexpr Name kTitles[] = {{"Allreduce", "all_reduce"},
                            {"All-Reduce", "all_reduce"},
                            {"Allgather", "all_gather"},
                            {"All-Gather", "all_gather"},
                            {"Reduce_scatter", "reduce_scatter"},
                            {"Reduce-Scatter", "reduce_scatter"},
                            {"Alltoall", "all_to_all"},
                            {"All-to-All", "all_to_all"},
                            {"Broadcast", "broadcast"},
                            {"Bcast", "broadcast"},
                            {"Reduce", "reduce"},
                            {"Gather", "gather"},
                            {"Scatter", "scatter"}};

// Reads the lines around a table, its rows, and those of OSU ("size time") and IMB ("size repetitions t_min t_max
// t_avg").
class TableReader {
 public:
  void line(std::string_view text) {
    const auto words = words_of(text, 20);
    if (const std::string_view title = osu_title(text); !title.empty()) read_osu(title);
    if (text.find("t_avg[usec]") != std::string_view::npos) imb_ = true;
    // IMB's Sendrecv counts megabytes besides, which its collectives do not.
    if (imb_ && table_.collective.empty() && text.find("t_avg[usec]") != std::string_view::npos &&
        text.find("Mbytes/sec") != std::string_view::npos)
      table_.collective = "send_receive", table_.named = "Mbytes/sec";
    if (text.find("# Benchmarking ") != std::string_view::npos) section(text);
    // Behind the rows a programme is that of the next table, but for the last line of nccl-tests.
    const bool ours_to_name = table_.rows.empty() || text.find("test concluded") != std::string_view::npos;
    for (const auto& [theirs, ours] : kProgrammes)
      if (ours_to_name && table_.collective.empty() && text.find(theirs) != std::string_view::npos)
        table_.collective = ours, table_.named = theirs;
    read_command(text, words);
    if (const auto at = std::ranges::find(words, "nGpus"); at != words.end() && at + 1 != words.end())
      table_.gpus_per_thread = static_cast<int>(number(at[1]).value_or(0));
    if (const auto at = text.find("#processes = "); at != std::string_view::npos)
      table_.ranks = std::max<std::int64_t>(table_.ranks, number_at(text, at + 13));
    read_device(text, words);
    if (const auto row = row_of(words)) {
      table_.rows.push_back(*row);
      return;
    }
    const auto bytes = words.size() >= 2 ? number(words[0]) : std::nullopt;
    const bool size = bytes && *bytes >= 1 && *bytes < kMostBytes;
    const std::size_t column = imb_ ? 4 : 1;
    if ((osu_ || imb_) && size && words.size() > column && number(words[column]).value_or(0) > 0)
      table_.rows.push_back({.bytes = static_cast<std::int64_t>(*bytes), .microseconds = *number(words[column])});
    else if (size && words.size() >= 3 && number(words[1]) && is_type(words[2]))
      ++table_.cut;
  }

  PerfTable finish() {
    settle_lists();
    if (sections_.empty()) return std::move(table_);
    // IMB measures each collective on 2, 4, 8 … processes: the largest number says most, and the first of those.
    sections_.push_back(std::move(table_));
    std::size_t with_rows = 0;
    const PerfTable* best = nullptr;
    for (const PerfTable& section : sections_) {
      if (section.rows.empty()) continue;
      ++with_rows;
      const bool judged = section.refused.empty();
      if (best == nullptr || judged > best->refused.empty() ||
          (judged == best->refused.empty() && section.ranks > best->ranks))
        best = &section;
    }
    if (best == nullptr) return std::move(sections_.back());
    PerfTable table = *best;
    table.left_out = with_rows - 1;
    return table;
  }

 private:
  static bool is_type(std::string_view word) {
    return std::ranges::any_of(table_words(), [&](std::string_view type) { return word.starts_with(type.substr(1)); });
  }

  void read_osu(std::string_view title) {
    osu_ = true;
    if (title.find("Bandwidth") != std::string_view::npos || title.find("Message Rate") != std::string_view::npos) {
      table_.refused = fmt::format("'{}' is a table of bandwidths in MB/s between pairs of ranks", title);
      return;
    }
    for (const auto& [theirs, ours] : kTitles)
      if (title.find(theirs) != std::string_view::npos) {
        table_.collective = ours, table_.named = title;
        return;
      }
    table_.refused = fmt::format("'{}' is no table of a collective: it is measured between pairs of ranks", title);
  }

  void section(std::string_view text) {
    const std::string gpu = table_.gpu;
    if (!table_.rows.empty() || !table_.collective.empty()) sections_.push_back(std::exchange(table_, {}));
    table_.gpu = gpu;
    imb_ = false;
    const std::string_view name = text.substr(text.find("# Benchmarking "));
    const bool known = std::ranges::any_of(kProgrammes, [&](const Name& n) { return name.find(n.theirs) == 2; });
    if (!known) table_.refused = fmt::format("'{}' is no table of a collective", name);
  }

  // "mpirun -np 16 … osu_allreduce", "srun -N 2 --ntasks-per-node=8 …": OSU's tables do not say the number of ranks.
  void read_command(std::string_view text, const std::vector<std::string_view>& words) {
    if (text.find("nccom-test") != std::string_view::npos) read_nccom(words);
    if (text.find("osu_") == std::string_view::npos || table_.ranks > 0) return;
    double ranks = option(words, {"-np", "-n", "--ntasks"});
    if (ranks == 0) ranks = option(words, {"-N", "--nodes"}) * option(words, {"--ntasks-per-node", "-ppn", "--ppn"});
    if (ranks >= 1 && ranks < 1e6) table_.ranks = static_cast<std::int64_t>(ranks);
  }

  // The value of the first of these options that is there, as "-n 8" or "--ntasks=8"; 0: none.
  static double option(const std::vector<std::string_view>& words, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == name && i + 1 < words.size()) return number(words[i + 1]).value_or(0);
        if (words[i].starts_with(name) && words[i].substr(name.size()).starts_with('='))
          return number(words[i].substr(name.size() + 1)).value_or(0);
      }
    return 0;
  }

  // AWS Neuron: "nccom-test -r 32 allr".
  void read_nccom(const std::vector<std::string_view>& words) {
    constexpr Name kOperations[] = {{"allr", "all_reduce"},       {"all_reduce", "all_reduce"},
                                    {"allg", "all_gather"},       {"all_gather", "all_gather"},
                                    {"redsct", "reduce_scatter"}, {"reduce_scatter", "reduce_scatter"},
                                    {"sendrecv", "send_receive"}, {"alltoall", "all_to_all"},
                                    {"all_to_all", "all_to_all"}, {"permute", "send_receive"}};
    for (const auto& [theirs, ours] : kOperations)
      if (table_.collective.empty() && std::ranges::find(words, theirs) != words.end())
        table_.collective = ours, table_.named = theirs;
    if (const double cores = option(words, {"-r", "--nworkers"}); cores >= 1 && cores < 1e6)
      table_.cores = static_cast<std::int64_t>(cores);
  }

  // "#  Rank  3 Group  0 Pid 4711 on  node1 device  3 [0x1b] NVIDIA H100 80GB HBM3"
  void read_device(std::string_view line, const std::vector<std::string_view>& words) {
    const auto rank = std::ranges::find(words, "Rank"), on = std::ranges::find(words, "on"),
               device = std::ranges::find(words, "device");
    if (rank == words.end() || on == words.end() || device == words.end() || on + 1 != device - 1) return;
    const auto own = rank + 1 != words.end() ? number(rank[1]) : std::nullopt;
    if (!own || *own < 0 || *own > 1e6) return;
    const auto number_of = static_cast<std::int64_t>(*own);
    // A rank that comes again behind rows belongs to a second run of the same command.
    if (table_.listed.contains(number_of) && !table_.rows.empty()) return;
    if (!table_.listed.insert(number_of).second) twice_.push_back(number_of);
    table_.ranks = std::max(table_.ranks, number_of + 1);
    table_.hosts.emplace(on[1]);
    if (const auto bracket = line.find(']', line.find("device")); bracket != std::string_view::npos)
      table_.gpu = line.substr(std::min(line.size(), bracket + 2));
    while (!table_.gpu.empty() && (table_.gpu.back() == '\r' || table_.gpu.back() == ' ')) table_.gpu.pop_back();
  }

  void settle_lists() {
    if (twice_.empty()) return;
    const auto runs = 1 + std::ranges::count(twice_, twice_.front());
    table_.refused = fmt::format(
        "{} runs of {} each that never talked to each other: rank {} is listed {} times; build nccl-tests with MPI=1, "
        "or judge each run alone",
        runs, counted(table_.listed.size(), "rank"), twice_.front(), runs);
  }

  PerfTable table_;
  std::vector<PerfTable> sections_;
  std::vector<std::int64_t> twice_;
  bool osu_ = false, imb_ = false;
};

}  // namespace

namespace {

// "[0]  1048576 262144 float sum -1[0]  1626.5 …": Hydra puts its tag before each piece that a rank writes, also in the
// middle of a line.
std::string without_tags(std::string_view line) {
  std::string text(line);
  std::size_t digits = 1;
  while (digits < line.size() && number_at(line, digits) >= 0) ++digits;
  if (!line.starts_with('[') || digits == 1 || digits >= line.size() || line[digits] != ']') return text;
  const std::string tag(line.substr(0, digits + 1));
  for (auto at = text.find(tag); at != std::string::npos; at = text.find(tag, at)) text.replace(at, tag.size(), " ");
  return text;
}

}  // namespace

PerfTable read_table(std::string_view text) {
  constexpr std::size_t kLongestLine = 1024;
  if (auto table = read_json_table(text)) return std::move(*table);
  TableReader reader;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, std::min(end, kLongestLine));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string whole = without_tags(line);
    reader.line(strip_launcher(whole).text);
  }
  return reader.finish();
}

// nccl-tests before 2.9 left a rank's own part out of the bandwidth of an all_gather: algbw = busbw = (n - 1) / n of
// size / time. One n of all large rows.
void settle_old_bandwidths(PerfTable& table) {
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
