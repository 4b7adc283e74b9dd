#include "apps/doctor/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "apps/doctor/cells.h"
#include "apps/doctor/line.h"
#include "base/text.h"

namespace weft::doctor {
namespace {

using Cells = std::vector<std::string>;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r*#`");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r*`") - first + 1);
}

// By the mark that the header has: '|', ',', a tab, or two blanks.
Cells cells_of(std::string_view line, char mark) {
  Cells cells;
  if (mark != ' ') {
    if (mark == '|') line = trimmed(line);
    if (mark == '|' && line.starts_with('|')) line.remove_prefix(1);
    if (mark == '|' && line.ends_with('|')) line.remove_suffix(1);
    for (const std::string_view cell : cut(line, mark)) cells.emplace_back(trimmed(cell));
    return cells;
  }
  for (std::size_t at = 0; at < line.size();) {
    const auto begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    auto end = std::min(line.find("  ", begin), line.find('\t', begin));
    end = std::min(end, line.size());
    if (const std::string_view cell = trimmed(line.substr(begin, end - begin)); !cell.empty()) cells.emplace_back(cell);
    at = end;
  }
  return cells;
}

char mark_of(std::string_view line) {
  const auto count = [&](char c) { return std::ranges::count(line, c); };
  return count('|') >= 2 ? '|' : count(',') >= 2 ? ',' : count('\t') >= 2 ? '\t' : ' ';
}

enum class Kind : std::uint8_t { kOther, kSize, kElements, kTime, kAlgbw, kBusbw };

struct Column {
  std::string name;
  Kind kind = Kind::kOther;
  double unit = 1;  // bytes, microseconds or GB/s
};

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kSizes[] = {{"b", 1},         {"byte", 1},    {"bytes", 1},    {"k", 1024},
                           {"kb", 1024},     {"kib", 1024},  {"m", 1 << 20},  {"mb", 1 << 20},
                           {"mib", 1 << 20}, {"g", 1 << 30}, {"gb", 1 << 30}, {"gib", 1 << 30}};
constexpr Unit kTimes[] = {{"us", 1},     {"usec", 1},           {"µs", 1},  {"microseconds", 1}, {"ms", 1e3},
                           {"msec", 1e3}, {"milliseconds", 1e3}, {"s", 1e6}, {"sec", 1e6},        {"seconds", 1e6},
                           {"ns", 1e-3}};
constexpr Unit kRates[] = {{"gb/s", 1},
                           {"gb/sec", 1},
                           {"gbps", 0.125},
                           {"gbit/s", 0.125},
                           {"gb/s/gpu", 1},
                           {"mb/s", 1e-3},
                           {"mb/sec", 1e-3},
                           {"mib/s", 1.048576e-3},
                           {"mib/sec", 1.048576e-3},
                           {"gib/s", 1.073741824},
                           {"gib/sec", 1.073741824},
                           {"gbits/s", 0.125}};

template <std::size_t N>
const Unit* unit_named(const Unit (&units)[N], std::string_view name) {
  const auto* at = std::ranges::find(units, name, &Unit::name);
  return at == std::end(units) ? nullptr : at;
}

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }
bool has_one(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return has(text, word); });
}

// "Avg Lat. (us)", "avg_lat_us", "Message Size [KiB]", "busbw (Gbps)".
Column column_of(std::string_view cell) {
  Column column{.name = std::string(cell)};
  const std::string name = lower(cell);
  const auto open = name.find_last_of("([");
  std::string unit = open == std::string::npos ? "" : name.substr(open + 1, name.find_first_of(")]", open) - open - 1);
  std::string plain(trimmed(name.substr(0, open)));
  if (unit.empty())
    if (const auto under = name.rfind('_'); under != std::string::npos) unit = name.substr(under + 1);
  const Unit* time = unit_named(kTimes, unit);
  const Unit* rate = unit_named(kRates, unit);
  const bool rates =
      has_one(plain, {"busbw", "bus bw", "bus_bw", "algbw", "alg bw", "bw", "b/w", "bandwidth", "tput", "throughput"});
  if (rates) {
    column.kind = has_one(plain, {"bus"}) ? Kind::kBusbw : Kind::kAlgbw;
    // "bw_gb_sec", "bw_mib_sec"
    if (name.ends_with("_sec") || name.ends_with("_s"))
      for (const Unit& one : kRates)
        if (std::string word(one.name); has(one.name, "/s")) {
          std::ranges::replace(word, '/', '_');
          if (name.ends_with("_" + word)) rate = &one;
        }
    column.unit = rate != nullptr ? rate->factor : 1;
  } else if (has_one(plain, {"batch", "step", "world", "stage", "chunk"})) {
    return column;
  } else if (has_one(plain, {"size", "bytes"}) || plain == "msg" || plain == "message") {
    column.kind = Kind::kSize;
    if (const Unit* size = unit_named(kSizes, unit)) column.unit = size->factor;
  } else if (plain == "elements" || plain == "count" || plain == "numel") {
    column.kind = Kind::kElements;
  } else if (has(plain, "total") || has(plain, "p99") || has(plain, "prep") || has(plain, "post")) {
    return column;
  } else if (time != nullptr || has_one(plain, {"time", "latency", "lat.", "duration"}) || plain.ends_with("lat")) {
    column.kind = Kind::kTime;
    if (time != nullptr) column.unit = time->factor;
  }
  return column;
}

// "1048576", "2.0 KiB", "16M".
double size_in(std::string_view cell, double unit) {
  const auto digits = cell.find_first_not_of("0123456789.,");
  std::string figure(cell.substr(0, digits));
  std::erase(figure, ',');
  const auto value = number(figure);
  if (!value) return 0;
  if (digits == std::string_view::npos) return *value * unit;
  const Unit* own = unit_named(kSizes, lower(trimmed(cell.substr(digits))));
  return own == nullptr ? 0 : *value * own->factor;
}

class Reader {
 public:
  explicit Reader(std::string_view column) : wanted_(lower(trimmed(column))) {}

  void line(std::string_view text, int number_of_line) {
    number_ = number_of_line;
    words(text);
    if (!header_ && header(text)) return;
    if (header_) row(text);
  }

  std::optional<ColumnTable> finish() {
    close();
    if (best_.rows.empty() && !out_.no_column) return std::nullopt;
    best_.ranks = ranks_;
    settle_bandwidths();
    best_.cut = lost_.cut, best_.dropped = lost_.dropped;
    best_.left_out = sections_ > 0 ? sections_ - 1 : 0;
    if (nixl_) make_pair();
    out_.table = std::move(best_);
    return std::move(out_);
  }

 private:
  void words(std::string_view text) {
    nixl_ = nixl_ || has_one(lower(text), {"nixl", "block size (b)", "block_size,"});
    for (const std::string_view key : {"processes=", "world_size=", "world_size: ", "nranks=", "nproc_per_node ",
                                       "nproc-per-node ", "-np ", "nproc_per_node="})
      if (const auto at = text.find(key); at != std::string_view::npos && ranks_ == 0)
        ranks_ = std::max<std::int64_t>(0, number_at(text, at + key.size()));
  }

  bool header(std::string_view text) {
    mark_ = mark_of(text);
    std::vector<Column> columns;
    for (const std::string& cell : cells_of(text, mark_)) columns.push_back(column_of(cell));
    const auto count = [&](Kind kind) { return std::ranges::count(columns, kind, &Column::kind); };
    const bool sized = count(Kind::kSize) > 0 || count(Kind::kElements) > 0;
    if (columns.size() < 2 || !sized || count(Kind::kTime) + count(Kind::kAlgbw) + count(Kind::kBusbw) == 0)
      return false;
    if (std::ranges::any_of(columns, [](const Column& c) { return number(c.name).has_value(); })) return false;
    columns_ = std::move(columns);
    header_ = true;
    indent_ = text.find_first_not_of(" \t#");
    choose();
    return true;
  }

  // The time that a table is judged by.
  void choose() {
    int best = -1;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].kind != Kind::kTime) continue;
      const std::string name = lower(columns_[i].name);
      out_.times.push_back(columns_[i].name);
      int worth = 1;
      if (has_one(name, {"min", "max"})) worth = 0;
      if (has_one(name, {"avg", "mean"})) worth = 2;
      if (has_one(name, {"p50", "median", "50%"})) worth = 3;
      if (!wanted_.empty()) worth = has(name, wanted_) ? 4 : -1;
      if (worth > best) best = worth, time_ = i;
    }
    if (best >= 0) out_.chosen = columns_[*time_].name;
    if (best < 0 && !wanted_.empty()) out_.no_column = wanted_;
  }

  std::optional<std::size_t> first(Kind kind) const {
    const auto at = std::ranges::find(columns_, kind, &Column::kind);
    return at == columns_.end() ? std::nullopt
                                : std::optional(static_cast<std::size_t>(std::distance(columns_.begin(), at)));
  }

  void row(std::string_view text) {
    Cells cells = cells_of(text, mark_);
    if (cells.empty()) return;
    if (cells.size() == 1) return section(cells[0]);
    // A first column that stands only where it changes.
    if (mark_ == ' ' && first(Kind::kSize).value_or(0) > 0 && cells.size() + 1 == columns_.size() &&
        text.find_first_not_of(" \t") > indent_)
      cells.insert(cells.begin(), "");
    const auto value = [&](std::optional<std::size_t> at) {
      if (!at || *at >= cells.size()) return 0.0;
      std::string figure = cells[*at];
      std::erase(figure, ',');
      return number(figure).value_or(0) * columns_[*at].unit;
    };
    const auto size = first(Kind::kSize), elements = first(Kind::kElements);
    constexpr double kFloat = 4;
    const double bytes = size && *size < cells.size() ? size_in(cells[*size], columns_[*size].unit)
                         : elements                   ? value(elements) * kFloat
                                                      : 0;
    if (!(bytes >= 1 && bytes <= static_cast<double>(kMostMessage))) {
      if (is_data(cells)) leave_out(lost_, number_, fmt::format("size {}", shown(cells[size ? *size : *elements])));
      return;
    }
    PerfTable::Row one{.bytes = static_cast<std::int64_t>(bytes + 0.5), .microseconds = value(time_)};
    one.algbw = value(first(Kind::kAlgbw)), one.busbw = value(first(Kind::kBusbw));
    if (one.microseconds <= 0 && one.algbw > 0) one.microseconds = bytes / one.algbw * 1e-3;
    const bool timed = std::isfinite(one.microseconds) && std::isfinite(one.busbw) && std::isfinite(one.algbw);
    if (timed && (one.microseconds > 0 || one.busbw > 0)) {
      if (own_.line == 0) own_.line = number_;
      own_.rows.push_back(one);
    } else if (is_data(cells)) {
      leave_out(lost_, number_, "no time or bandwidth that is a number above 0");
    }
  }

  // Cells of a row, and not of a line of Markdown or a text between tables.
  bool is_data(const Cells& cells) const {
    const auto figure = [](const std::string& cell) {
      return number(cell) || cell.find_first_of("0123456789") != std::string::npos;
    };
    return cells.size() >= 2 && (mark_ != ' ' || cells.size() >= columns_.size()) && std::ranges::any_of(cells, figure);
  }

  // A line with a collective's name alone: rows of it follow.
  void section(const std::string& name) {
    close();
    own_.collective = collective_in(name);
    own_.named = name;
  }
  void close() {
    if (!own_.rows.empty()) {
      ++sections_;
      const auto most = [](const PerfTable& t) {
        return t.rows.empty() ? 0 : std::ranges::max_element(t.rows, {}, &PerfTable::Row::bytes)->bytes;
      };
      if (most(own_) > most(best_)) best_ = own_;
    }
    own_ = {};
  }

  // A bandwidth that is in all rows the same times size over time is that of the bus, as its ratio says; and sizes "MB"
  // may be 10^6 bytes.
  void settle_bandwidths() {
    constexpr double kDigits = 0.5, kAlike = 1.05, kNear = 0.02;  // GB/s from which on there are two digits
    double least = 0, most = 0, sum = 0;
    int seen = 0;
    for (const PerfTable::Row& row : best_.rows) {
      if (row.algbw < kDigits || row.busbw > 0 || row.microseconds <= 0) continue;
      const double ratio = row.algbw / (static_cast<double>(row.bytes) / row.microseconds * 1e-3);
      least = seen == 0 ? ratio : std::min(least, ratio), most = std::max(most, ratio);
      sum += ratio, ++seen;
    }
    if (seen < 2 || most > kAlike * least || std::abs(sum / seen - 1) < kNear) return;
    const auto size = first(Kind::kSize);
    const double unit = size ? columns_[*size].unit : 1;
    const double decimal = unit == 1 ? 1 : std::pow(1000 / 1024.0, std::round(std::log(unit) / std::log(1024.0)));
    const double share = static_cast<double>(ranks_ - 1) / static_cast<double>(std::max<std::int64_t>(1, ranks_));
    for (const double smaller : {1.0, decimal})
      for (const double factor : {1.0, 2 * share, share}) {
        if (factor <= 0 || std::abs(sum / seen / smaller - factor) > kNear * factor) continue;
        for (PerfTable::Row& row : best_.rows) {
          row.bytes = std::llround(static_cast<double>(row.bytes) * smaller);
          if (factor != 1) row.busbw = std::exchange(row.algbw, row.algbw / factor);
        }
        return;
      }
  }

  void make_pair() {
    PairTable pair{.test = "NIXLBench"};
    for (const PerfTable::Row& row : best_.rows)
      pair.rows.push_back(
          {.bytes = row.bytes, .gigabytes = row.algbw, .microseconds = row.algbw > 0 ? 0 : row.microseconds});
    out_.pair = std::move(pair);
  }

  std::string wanted_;
  char mark_ = ' ';
  int number_ = 0;  // of the line
  bool header_ = false, nixl_ = false;
  std::size_t indent_ = 0, sections_ = 0;
  std::optional<std::size_t> time_;
  std::int64_t ranks_ = 0;
  std::vector<Column> columns_;
  PerfTable own_, best_;
  PerfTable lost_;  // counts the rows that are left out
  ColumnTable out_;
};

}  // namespace

std::optional<ColumnTable> read_columns(std::string_view text, std::string_view column) {
  constexpr std::size_t kLongestLine = 1024;
  Reader reader(column);
  for (int number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    reader.line(strip_launcher(text.substr(0, std::min(end, kLongestLine))).text, number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.finish();
}

std::string collective_in(std::string_view text) {
  std::string plain = lower(text);
  std::erase_if(plain, [](char c) { return c == '_' || c == '-' || c == ' ' || c == '.'; });
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"allreduce", "all_reduce"},
                                                                      {"allgather", "all_gather"},
                                                                      {"reducescatter", "reduce_scatter"},
                                                                      {"alltoall", "all_to_all"},
                                                                      {"broadcast", "broadcast"},
                                                                      {"sendrecv", "send_receive"},
                                                                      // NVSHMEM's perftests
                                                                      {"reductionon", "all_reduce"},
                                                                      {"fcollecton", "all_gather"}};
  std::string found;
  for (const auto& [theirs, ours] : kNames)
    if (has(plain, theirs)) {
      if (!found.empty() && found != ours) return "";
      found = ours;
    }
  return found;
}

}  // namespace weft::doctor
