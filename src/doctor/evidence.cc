#include "doctor/evidence.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "doctor/pickle.h"

namespace weft::doctor {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{2} << 30;
constexpr std::size_t kLongestLine = 4096;  // of a line, what is looked at
constexpr std::size_t kMostFactsPerRule = 1000;

bool binary(std::string_view text) { return text.substr(0, 4096).find('\0') != std::string_view::npos; }

// Digits at `at`; -1: none.
int number_at(std::string_view text, std::size_t at) {
  int value = 0;
  std::size_t digits = 0;
  for (; at + digits < text.size() && text[at + digits] >= '0' && text[at + digits] <= '9' && digits < 8; ++digits)
    value = 10 * value + (text[at + digits] - '0');
  return digits > 0 ? value : -1;
}
int number_behind(std::string_view text, std::string_view word) {
  const auto at = text.find(word);
  return at == std::string_view::npos ? -1 : number_at(text, at + word.size());
}

// Launchers put the rank first: "12: …" (srun -l), "[1,3]<stdout>: …" (mpirun --tag-output), "3: …", "> …".
int strip_launcher(std::string& line) {
  std::size_t at = 0;
  int rank = -1;
  if (line.starts_with("[1,")) {
    const auto end = line.find(">:");
    if (end != std::string::npos && end < 32) rank = number_at(line, 3), at = end + 2;
  } else if (const auto colon = line.find(':'); colon != std::string::npos && colon > 0 && colon <= 6) {
    const std::string_view before(line.data(), colon);
    if (std::ranges::all_of(before, [](char c) { return (c >= '0' && c <= '9') || c == ' '; }) &&
        colon + 1 < line.size() && line[colon + 1] == ' ')
      rank =
          number_at(line, before.find_first_not_of(' ') == std::string_view::npos ? 0 : before.find_first_not_of(' ')),
      at = colon + 1;
  } else if (line.starts_with("> ")) {
    at = 1;
  }
  while (at < line.size() && line[at] == ' ' && at > 0) ++at;
  line.erase(0, at);
  return rank;
}

// "[2025-01-02 10:00:00" or "2025-01-02T10:00:00,123": sortable as printed.
std::string time_of(std::string_view line) {
  for (std::size_t at = 0; at + 19 <= line.size() && at < 64; ++at) {
    const std::string_view t = line.substr(at, 19);
    const auto digit = [&](std::size_t i) { return t[i] >= '0' && t[i] <= '9'; };
    if (t[4] == '-' && t[7] == '-' && (t[10] == ' ' || t[10] == 'T') && t[13] == ':' && t[16] == ':' && digit(0) &&
        digit(5) && digit(8) && digit(11) && digit(14) && digit(17)) {
      std::string time(t);
      time[10] = ' ';
      return time;
    }
  }
  return "";
}

// "host:pid:tid [dev] NCCL": host and "host:pid".
std::pair<std::string, std::string> process_of(std::string_view line) {
  const auto nccl = line.find(" NCCL ");
  if (nccl == std::string_view::npos) return {};
  for (std::size_t at = 0; at < nccl;) {
    const auto end = std::min(line.find(' ', at), nccl);
    const std::string_view word = line.substr(at, end - at);
    const auto first = word.find(':'), second = first == std::string_view::npos ? first : word.find(':', first + 1);
    if (second != std::string_view::npos && number_at(word, first + 1) >= 0 && number_at(word, second + 1) >= 0)
      return {std::string(word.substr(0, first)), std::string(word.substr(0, second))};
    at = end + 1;
  }
  return {};
}

std::string source_of(std::string_view line) {
  const auto has = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  if (has(" NCCL ") || has("RCCL")) return "nccl";
  if (has("NVRM") || has("SXid") || has("mlx5_core") || has("kernel:") || has("oom-kill")) return "dmesg";
  if (has("ProcessGroup") || has("Watchdog") || has("torch") || has("[rank") || has("[Rank")) return "pytorch";
  return "tool";
}

// Lines of these kinds are read even where no rule finds anything in them.
bool known_kind(std::string_view line) {
  static constexpr std::string_view kKinds[] = {" NCCL ", "NVRM", "SXid",  "mlx5",   "[rank", "[Rank", "ProcessGroup",
                                                "Link ",  "GPU",  "State", "state",  "Rate",  "# ",    "NV1",
                                                "SYS",    "PHB",  "CA ",   "Speed:", "rx_",   "tx_"};
  return std::ranges::any_of(kKinds, [&](std::string_view kind) { return line.find(kind) != std::string_view::npos; });
}

int rank_in_name(const std::string& file) {
  const std::string base = std::filesystem::path(file).filename().string();
  std::size_t end = base.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  std::size_t begin = end;
  while (begin > 0 && base[begin - 1] >= '0' && base[begin - 1] <= '9') --begin;
  return number_at(base, begin);
}

// All ranks of these may pass other sizes.
bool may_be_uneven(const std::string& profiling) {
  return profiling.find("all_to_all") != std::string::npos || profiling.find("gather") != std::string::npos ||
         profiling.find("scatter") != std::string::npos;
}

}  // namespace

void Evidence::found(std::string_view id, Fact fact) {
  const auto at = std::ranges::find(rules_, id, &Rule::id);
  if (at == rules_.end()) return;
  fact.rule = static_cast<std::size_t>(at - rules_.begin());
  facts_.push_back(std::move(fact));
}

Status Evidence::add_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  std::vector<fs::path> files;
  const bool folder = fs::is_directory(path, none);
  if (folder) {
    for (fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, none), end;
         !none && at != end; at.increment(none))
      if (at->is_regular_file(none)) files.push_back(at->path());
    std::ranges::sort(files);
    if (files.empty()) return bad_input("{}: the folder has no files", path);
  } else {
    files.emplace_back(path);
  }
  for (const fs::path& file : files) {
    const auto text = read_text_file(file, kLargestFile);
    const std::string problem = !text ? text.error().message : add_file(file.string(), *text);
    if (problem.empty()) continue;
    if (!folder) return bad_input("{}", problem);
    left_out_.push_back(problem);
  }
  return {};
}

void Evidence::add_text(const std::string& file, std::string_view text) {
  ++files_;
  if (const auto first = text.find_first_not_of(" \t\r\n");
      first != std::string_view::npos && text[first] == '{' && add_dump(file, json::parse(text, nullptr, false)))
    return;
  int number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string line(text.substr(0, std::min(end, kLongestLine)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.pop_back();
    if (!line.empty()) add_line(file, number, line);
  }
}

void Evidence::add_line(const std::string& file, int number, const std::string& original) {
  ++lines_;
  std::string line = original;
  Fact fact{.file = file, .text = original, .line = number};
  fact.rank = strip_launcher(line);
  fact.time = time_of(line);
  fact.source = source_of(line);
  const auto [host, process] = process_of(line);
  fact.host = host;
  if (!process.empty()) {
    if (const int rank = number_behind(line, " rank "); rank >= 0 && line.find("nranks") != std::string::npos)
      rank_of_.emplace(process, rank);
    if (const auto known = rank_of_.find(process); known != rank_of_.end() && fact.rank < 0) fact.rank = known->second;
  }
  for (const std::string_view word : {"[Rank ", "[rank"})
    if (fact.rank < 0) fact.rank = number_behind(line, word);
  if (const auto at = line.find("Got completion from peer "); at != std::string::npos) {
    const auto begin = at + std::string_view("Got completion from peer ").size();
    fact.peer = line.substr(begin, line.find_first_of(" <", begin) - begin);
  }
  if (const int sequence = number_behind(line, "SeqNum=");
      sequence >= 0 && (watchdog_sequence < 0 || sequence < watchdog_sequence))
    watchdog_sequence = sequence, watchdog_rank = fact.rank;
  bool understood = false;
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    if (!rules_[r].finds(line)) continue;
    understood = true;
    fact.rule = r;
    facts_.push_back(fact);
  }
  add_table_row(file, number, line);
  if (!understood && !known_kind(line)) ++not_understood_;
}

// Rows of nccl-tests: size count type redop root, then time algbw busbw #wrong, twice.
void Evidence::add_table_row(const std::string& file, int number, const std::string& line) {
  if (line.find("float") == std::string::npos && line.find("half") == std::string::npos &&
      line.find("int") == std::string::npos)
    return;
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const auto begin = line.find_first_not_of(" \t", at);
    if (begin == std::string::npos) break;
    const auto end = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  constexpr std::size_t kColumns = 13, kWrong = 8, kWrongInPlace = 12;
  if (words.size() != kColumns || number_at(words[0], 0) < 0) return;
  for (const std::size_t column : {kWrong, kWrongInPlace})
    if (number_at(words[column], 0) > 0) {
      found("F155", {.file = file, .text = line, .source = "table", .line = number});
      return;
    }
}

std::string Evidence::add_file(const std::string& file, std::string_view text) {
  if (is_pickle(text)) return add_pickle(file, text);
  if (binary(text)) return fmt::format("{}: a binary file", file);
  add_text(file, text);
  return {};
}

std::string Evidence::add_pickle(const std::string& file, std::string_view text) {
  const auto dump = read_pickle(text);
  if (!dump) return fmt::format("{}: {}", file, dump.error().message);
  if (!add_dump(file, *dump)) return fmt::format("{}: a pickle that is no flight recorder's dump", file);
  ++files_;
  return {};
}

bool Evidence::add_dump(const std::string& file, const json& dump) {
  if (!dump.is_object() || !dump.contains("entries") || !dump["entries"].is_array()) return false;
  const auto text_of = [](const json& object, const char* key) {
    return object.is_object() && object.contains(key)
               ? (object[key].is_string() ? object[key].get<std::string>() : object[key].dump())
               : std::string();
  };
  int rank = dump.contains("rank") && dump["rank"].is_number_integer() ? dump["rank"].get<int>() : rank_in_name(file);
  dumped_.insert(rank);
  if (dump.contains("pg_config") && dump["pg_config"].is_object())
    for (const auto& [name, config] : dump["pg_config"].items()) {
      Group& group = records_[text_of(config, "name").empty() ? name : text_of(config, "name")];
      const json ranks = json::parse(text_of(config, "ranks"), nullptr, false);
      if (ranks.is_array())
        for (const json& r : ranks)
          if (r.is_number_integer()) group.members.insert(r.get<int>());
    }
  for (const json& entry : dump["entries"]) {
    ++lines_;
    if (!entry.is_object() || !entry.contains("collective_seq_id") || !entry["collective_seq_id"].is_number_integer()) {
      ++not_understood_;
      continue;
    }
    const std::int64_t sequence = entry["collective_seq_id"].get<std::int64_t>();
    std::string group = "0";
    if (entry.contains("process_group"))
      group = entry["process_group"].is_array() && !entry["process_group"].empty()
                  ? (entry["process_group"][0].is_string() ? entry["process_group"][0].get<std::string>()
                                                           : entry["process_group"][0].dump())
                  : text_of(entry, "process_group");
    Group& g = records_[group];
    if (entry.value("is_p2p", false)) continue;
    g.by_sequence[sequence].push_back({rank, file, text_of(entry, "profiling_name"),
                                       text_of(entry, "input_sizes") + text_of(entry, "output_sizes"),
                                       text_of(entry, "input_dtypes"), text_of(entry, "state")});
    std::int64_t& last = g.last.try_emplace(rank, sequence).first->second;
    last = std::max(last, sequence);
  }
  return true;
}

void Evidence::finish() {
  const auto majority = [](const std::vector<Record>& records, auto member) {
    std::map<std::string, int> votes;
    for (const Record& r : records) ++votes[r.*member];
    return std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; })->first;
  };
  for (const auto& [name, group] : records_) {
    // The first call in which ranks differ says more than those behind it.
    bool differs = false;
    for (const auto& [sequence, records] : group.by_sequence) {
      const std::string call = majority(records, &Record::profiling), sizes = majority(records, &Record::sizes),
                        types = majority(records, &Record::types);
      for (const Record& r : records) {
        const auto report = [&](std::string_view id, const std::string& own, const std::string& others) {
          differs = true;
          found(id, {.file = r.file,
                     .text = fmt::format("group {}, call {}: rank {} has {}, the others {}", name, sequence, r.rank,
                                         own, others),
                     .source = "flight-recorder",
                     .rank = r.rank});
        };
        if (r.profiling != call)
          report("F065", r.profiling, call);
        else if (r.types != types)
          report("F067", r.types, types);
        else if (r.sizes != sizes && !may_be_uneven(call))
          report("F066", r.sizes, sizes);
      }
      if (differs) break;
    }
    if (differs || group.last.empty()) continue;
    std::int64_t most = 0;
    for (const auto& [rank, last] : group.last) most = std::max(most, last);
    for (const int rank : group.members)
      if (!dumped_.contains(rank))
        found("F068",
              {.file = "(no dump)",
               .text = fmt::format("group {}: rank {} has left no dump; the others are at call {}", name, rank, most),
               .source = "flight-recorder",
               .rank = rank});
    for (const auto& [rank, last] : group.last)
      if (last < most)
        found("F068", {.file = "",
                       .text = fmt::format("group {}: rank {} is at call {}, others at {}", name, rank, last, most),
                       .source = "flight-recorder",
                       .rank = rank});
  }
}

}  // namespace weft::doctor
