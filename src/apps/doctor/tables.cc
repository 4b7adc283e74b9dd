#include "apps/doctor/tables.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

#include "apps/doctor/cells.h"
#include "apps/doctor/line.h"
#include "apps/doctor/tables_json.h"
#include "base/counted.h"
#include "base/text.h"

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

constexpr double kMostBytes = static_cast<double>(kMostMessage);

// Bytes of an element; 0: another type.
double bytes_of_type(std::string_view type) {
  constexpr std::pair<std::string_view, int> kTypes[] = {
      {"float8", 1}, {"fp8", 1},     {"f8", 1},       {"int8", 1}, {"uint8", 1},  {"char", 1},
      {"half", 2},   {"float16", 2}, {"bfloat16", 2}, {"bf16", 2}, {"double", 8}, {"float64", 8},
      {"int64", 8},  {"uint64", 8},  {"float", 4},    {"int", 4},  {"uint", 4}};
  for (const auto& [name, bytes] : kTypes)
    if (type.starts_with(name)) return bytes;
  return 0;
}

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
  if (!bytes || !count || number(words[2]) || !(*bytes >= 1 && *bytes <= kMostBytes)) return std::nullopt;
  std::size_t first = 3;
  while (first < words.size() && !number(words[first])) ++first;
  // With a root there are five numbers in front of the end or of a word, or nine, or thirteen.
  std::size_t numbers = 0;
  while (first + numbers < words.size() && (number(words[first + numbers]) || words[first + numbers] == "N/A"))
    ++numbers;
  PerfTable::Row row{.bytes = static_cast<std::int64_t>(*bytes)};
  row.type = words[2];
  if (first > 3) row.operation = words[3];
  if (const double whole = *count * bytes_of_type(words[2]); whole > 0) row.parts = *bytes / whole;
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

// A number, or what stands where one should.
bool like_number(std::string_view word) {
  return number(word) || word.find_first_of("0123456789") != std::string_view::npos;
}

// Reads the lines around tables, their rows, and those of OSU ("size time") and IMB ("size repetitions t_min t_max
// t_avg").
class TableReader {
 public:
  void line(std::string_view text, int number_of_line) {
    number_ = number_of_line;
    const auto words = words_of(text, 20);
    if (begins_table(text, words)) next();
    if (const std::string_view title = osu_title(text); !title.empty()) read_osu(title);
    if (text.find("t_avg[usec]") != std::string_view::npos) imb_ = true;
    // IMB's Sendrecv counts megabytes besides, which its collectives do not.
    if (imb_ && table_.collective.empty() && text.find("t_avg[usec]") != std::string_view::npos &&
        text.find("Mbytes/sec") != std::string_view::npos) {
      table_.collective = "send_receive", table_.named = "Mbytes/sec";
      if (title_.starts_with("Exchange"))
        table_.refused = "IMB's Exchange is no table of a collective: both neighbours send and receive";
    }
    if (words.size() == 1) title_ = words[0];
    if (text.find("# Benchmarking ") != std::string_view::npos) section(text);
    // Behind the rows a programme is that of the next table, but for the last line of nccl-tests.
    const bool ours_to_name = table_.rows.empty() || text.find("test concluded") != std::string_view::npos;
    for (const auto& [theirs, ours] : kProgrammes)
      if (text.find(theirs) != std::string_view::npos) {
        if (!ours_to_name) next_ = {theirs, ours};
        if (ours_to_name && table_.collective.empty()) table_.collective = ours, table_.named = theirs;
        break;
      }
    read_command(text, words);
    if (const auto at = std::ranges::find(words, "nGpus"); at != words.end() && at + 1 != words.end())
      table_.gpus_per_thread = static_cast<int>(number(at[1]).value_or(0));
    if (const auto at = text.find("#processes = "); at != std::string_view::npos)
      table_.ranks = std::max<std::int64_t>(table_.ranks, number_at(text, at + 13));
    read_device(text, words);
    if (const auto row = row_of(words)) return add(*row);
    pair_row(words);
  }

  std::vector<PerfTable> finish() {
    settle_lists();
    if (done_.empty() || !table_.rows.empty() || !table_.refused.empty() || table_.cut > 0)
      done_.push_back(std::move(table_));
    return std::move(done_);
  }

 private:
  static bool is_type(std::string_view word) {
    return std::ranges::any_of(table_words(), [&](std::string_view type) { return word.starts_with(type.substr(1)); });
  }

  // Behind rows: the title of the next table, its command, its header of nccl-tests, or the devices of its ranks.
  bool begins_table(std::string_view text, const std::vector<std::string_view>& words) const {
    if (table_.rows.empty()) return false;
    const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
    return has("# nThread ") || has("Collective test starting") || has("# Using devices") || !osu_title(text).empty() ||
           has("t_avg[usec]") || (osu_ && has("osu_") && (has("run ") || has("srun"))) ||
           (has("Rank") && has("device") && has("[") && has_rank(words));
  }
  bool has_rank(const std::vector<std::string_view>& words) const {
    const auto rank = std::ranges::find(words, "Rank");
    const auto own = rank != words.end() && rank + 1 != words.end() ? number(rank[1]) : std::nullopt;
    return own && *own == 0 && table_.listed.contains(0);
  }

  // The table is complete: another one begins, of which nothing is known but what was said behind the rows.
  void next() {
    settle_lists();
    const bool said = !table_.rows.empty() || !table_.refused.empty() || table_.cut > 0;
    if (said) done_.push_back(table_);
    table_ = {};
    twice_.clear();
    osu_ = imb_ = false;
    table_.collective = next_.ours, table_.named = next_.theirs;
    next_ = {};
  }

  // Sizes that begin again, or another type or operation: a table of the same job.
  void add(const PerfTable::Row& row) {
    if (!table_.rows.empty()) {
      const PerfTable::Row &first = table_.rows.front(), &last = table_.rows.back();
      const bool again = row.bytes <= first.bytes && last.bytes > first.bytes;
      if (again || row.type != last.type || row.operation != last.operation) {
        PerfTable same = table_;
        same.rows.clear(), same.dropped.clear(), same.cut = 0, same.line = 0;
        done_.push_back(std::exchange(table_, std::move(same)));
      }
    }
    if (table_.line == 0) table_.line = number_;
    table_.rows.push_back(row);
  }

  // A row of OSU or IMB, or one that is none.
  void pair_row(const std::vector<std::string_view>& words) {
    if (words.size() < 2) return;
    const auto bytes = number(words[0]);
    const bool size = bytes && *bytes >= 1 && *bytes <= kMostBytes;
    const std::size_t column = imb_ ? 4 : 1;
    if (osu_ || imb_) {
      const double time = words.size() > column ? number(words[column]).value_or(0) : 0;
      if (size && time > 0 && std::isfinite(time))
        add({.bytes = static_cast<std::int64_t>(*bytes), .microseconds = time});
      else if (bytes && *bytes != 0 && std::ranges::all_of(words, like_number))
        leave_out(table_, number_, size ? "no time" : fmt::format("size {}", shown(words[0])));
    } else if (words.size() >= 3 && is_type(words[2]) && like_number(words[0]) &&
               (bytes || number(words[1]) || std::isdigit(static_cast<unsigned char>(words[0][0])) != 0)) {
      leave_out(table_, number_,
                !size               ? fmt::format("size {}", shown(words[0]))
                : !number(words[1]) ? fmt::format("count {}", shown(words[1]))
                                    : "cut off, or without a time");
    }
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
    const auto gpus = table_.gpus;
    if (!table_.rows.empty() || !table_.collective.empty()) next();
    table_ = {};
    table_.gpus = gpus;
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
    if (const auto bracket = line.find(']', line.find("device")); bracket != std::string_view::npos) {
      std::string gpu(line.substr(std::min(line.size(), bracket + 2)));
      while (!gpu.empty() && (gpu.back() == '\r' || gpu.back() == ' ')) gpu.pop_back();
      if (!gpu.empty()) ++table_.gpus[gpu];
    }
  }

  void settle_lists() {
    if (!table_.gpus.empty())
      table_.gpu = std::ranges::max_element(table_.gpus, {}, [](const auto& one) { return one.second; })->first;
    if (twice_.empty()) return;
    const auto runs = 1 + std::ranges::count(twice_, twice_.front());
    table_.refused = fmt::format(
        "{} runs of {} each that never talked to each other: rank {} is listed {} times; build nccl-tests with MPI=1, "
        "or judge each run alone",
        runs, counted(table_.listed.size(), "rank"), twice_.front(), runs);
  }

  PerfTable table_;
  std::vector<PerfTable> done_;
  std::string title_;  // the last line of one word
  Name next_;          // a programme that was named behind the rows
  std::vector<std::int64_t> twice_;
  int number_ = 0;  // of the line
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

void leave_out(PerfTable& table, int line, std::string why) {
  constexpr std::size_t kMostNamed = 8;
  ++table.cut;
  if (table.dropped.size() < kMostNamed) table.dropped.push_back({line, std::move(why)});
}

std::vector<PerfTable> read_tables(std::string_view text) {
  constexpr std::size_t kLongestLine = 1024;
  if (auto table = read_json_table(text)) return {std::move(*table)};
  TableReader reader;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, std::min(end, kLongestLine));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string whole = without_tags(line);
    reader.line(strip_launcher(whole).text, number);
  }
  return reader.finish();
}

PerfTable read_table(std::string_view text) {
  std::vector<PerfTable> all = read_tables(text);
  std::size_t with_rows = 0;
  PerfTable* best = nullptr;
  for (PerfTable& one : all) {
    if (one.rows.empty()) continue;
    ++with_rows;
    const bool judged = one.refused.empty();
    if (best == nullptr || judged > best->refused.empty() ||
        (judged == best->refused.empty() && one.ranks > best->ranks))
      best = &one;
  }
  if (best == nullptr) return std::move(all.back());
  best->left_out = with_rows - 1;
  return std::move(*best);
}

const std::vector<std::string_view>& table_words() {
  static const std::vector<std::string_view> kWords = {" float", " half",  " double", " bfloat16", " int8",
                                                       " int32", " int64", " uint",   " fp8",      " f8e"};
  return kWords;
}

bool is_row(std::string_view line) {
  return row_of(words_of(line, 20)).has_value() || !osu_title(line).empty() || line.starts_with("# Benchmarking ");
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
