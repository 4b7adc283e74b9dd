#include "base/job_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text_file.h"

namespace weft {
namespace {

constexpr std::size_t kLongestPrefix = 96;

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.'; }

void skip_blanks(std::string_view& line) {
  while (!line.empty() && (line[0] == ' ' || line[0] == '\t')) line.remove_prefix(1);
}

// Does the text at `at` look as the pattern, in which 0 stands for a digit?
bool looks(std::string_view text, std::size_t at, std::string_view pattern) {
  if (at + pattern.size() > text.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] == '0' ? !digit(text[at + i]) : text[at + i] != pattern[i]) return false;
  return true;
}

// The length of "10:00:00", "10:00:00.123", "10:00:00,123Z", "10:00:00+02:00" at `at`; 0: there is none.
std::size_t time_of_day(std::string_view t, std::size_t at) {
  if (!looks(t, at, "00:00:00")) return 0;
  std::size_t end = at + 8;
  if (end < t.size() && (t[end] == '.' || t[end] == ','))
    for (++end; end < t.size() && digit(t[end]);) ++end;
  if (end < t.size() && t[end] == 'Z')
    ++end;
  else if (end < t.size() && (t[end] == '+' || t[end] == '-') && looks(t, end + 1, "00:00"))
    end += 6;
  return end - at;
}

// The length of a date and time, or of a time of day alone, at the start of the line, in brackets or not; 0: none.
std::size_t time_stamp(std::string_view t) {
  const std::size_t begin = t.starts_with('[') ? 1 : 0;
  std::size_t at = begin;
  if (looks(t, at, "0000-00-00") || looks(t, at, "0000/00/00")) {
    at += 10;
    if (at >= t.size() || (t[at] != 'T' && t[at] != ' ')) return 0;
    ++at;
  }
  const std::size_t time = time_of_day(t, at);
  if (time == 0) return 0;
  at += time;
  if (begin == 1) {
    if (at >= t.size() || t[at] != ']') return 0;
    ++at;
  }
  if (at < t.size() && t[at] == ':' && at + 1 < t.size() && t[at + 1] == ' ') ++at;
  return at == t.size() || t[at] == ' ' || t[at] == '\t' ? at : 0;
}

// What stands behind a time stamp: the stream that CRI names, the level that Python's logging names.
void skip_behind_time(std::string_view& line) {
  if (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
  for (const std::string_view stream : {"stdout F", "stderr F", "stdout P", "stderr P"})
    if (line.starts_with(stream) && (line.size() == stream.size() || line[stream.size()] == ' ')) {
      line.remove_prefix(std::min(line.size(), stream.size() + 1));
      return;
    }
  for (const std::string_view level : {"INFO ", "DEBUG ", "[INFO] ", "[DEBUG] ", "INFO: ", "- INFO - "})
    if (line.starts_with(level)) return line.remove_prefix(level.size());
}

// The length of "worker-1  | " or "trainer_0 | ", names with a number as docker compose makes them; 0: none.
std::size_t compose(std::string_view line) {
  std::size_t end = 0;
  while (end < std::min(line.size(), kLongestPrefix) && letter(line[end])) ++end;
  std::size_t name = end;
  while (name > 0 && digit(line[name - 1])) --name;
  if (name == end || name < 2 || (line[name - 1] != '-' && line[name - 1] != '_')) return 0;
  while (end < line.size() && line[end] == ' ') ++end;
  return end < line.size() && line[end] == '|' ? std::min(line.size(), end + 2) : 0;
}

// Takes one prefix off; false: there is none.
bool strip_one(std::string_view& line, JobLine& found) {
  const auto head = line.substr(0, kLongestPrefix);
  const auto cut = [&](std::size_t length) {
    line.remove_prefix(length);
    skip_blanks(line);
    return true;
  };
  if (line.starts_with("\x1b[")) {
    const auto end = head.find('m');
    return end != std::string_view::npos && cut(end + 1);
  }
  if (line.starts_with("[1,")) {
    const auto end = head.find(">:");
    if (end == std::string_view::npos) return false;
    found.rank = number_at(line, 3);
    return cut(end + 2);
  }
  if (line.starts_with("[default") || line.starts_with("[rank")) {
    const auto end = head.find("]:");
    if (end == std::string_view::npos) return false;
    found.rank = line[1] == 'r' ? number_at(line, 5) : found.rank;  // [default3] counts on a node
    return cut(end + 2);
  }
  if (line.starts_with("[pod/")) {
    const auto end = line.substr(0, 3 * kLongestPrefix).find("] ");
    return end != std::string_view::npos && cut(end + 2);
  }
  if (const std::size_t time = time_stamp(head)) {
    line.remove_prefix(time);
    skip_behind_time(line);
    return true;
  }
  if (line[0] == '(') {
    const auto end = line.substr(0, 2 * kLongestPrefix).find(')');
    const auto inside = line.substr(1, end == std::string_view::npos ? 0 : end - 1);
    const bool ray = inside.find(" pid=") != std::string_view::npos;
    // "(launcher) ": a name of several letters, as Ray's and Kubeflow's drivers print it. Units are "(us)", "(B)".
    const bool name = inside.size() > 4 && std::ranges::all_of(inside, letter) && line.substr(end).starts_with(") ") &&
                      inside != "elements";
    if (!ray && !name) return false;
    // "(VllmWorker rank=3 pid=7)", "(Worker_TP3 pid=7)": with more than one kind of parallelism the number is no rank.
    for (const std::string_view worker : {"VllmWorker rank=", "Worker_TP"})
      if (inside.starts_with(worker)) found.rank = number_at(inside, worker.size());
    if (const auto ip = line.substr(0, end).find("ip="); ip != std::string_view::npos)
      found.host = line.substr(ip + 3, end - ip - 3);
    return cut(end + 1);
  }
  if (line.starts_with("> ")) return cut(2);
  // "[2025-02-24 14:09:34 TP14] " of SGLang, with "DP1 " before and " EP3" behind the rank of tensor parallelism.
  if (line[0] == '[' && looks(line, 1, "0000-00-00 00:00:00 ")) {
    const auto end = head.find("] "), rank = head.find(" TP");
    if (end == std::string_view::npos || rank > end) return false;
    if (head.substr(0, end).find(" DP") == std::string_view::npos) found.rank = number_at(line, rank + 3);
    return cut(end + 2);
  }
  if (const std::size_t name = compose(line)) return cut(name);
  const auto colon = head.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon > 6 || colon + 1 >= line.size() ||
      line[colon + 1] != ' ' || !digit(line[colon - 1]))
    return false;
  const auto first = line.find_first_not_of(' ');
  if (!std::ranges::all_of(line.substr(first, colon - first), digit)) return false;
  found.rank = number_at(line, first);
  return cut(colon + 1);
}

// The length of a terminal's control sequence at the start of the text: ESC [ … letter, ESC ] … BEL, ESC and a letter.
std::size_t control_sequence(std::string_view text) {
  if (text.size() < 2) return 1;
  std::size_t end = 2;
  if (text[1] == '[') {
    while (end < text.size() && (text[end] < '@' || text[end] > '~') && text[end] != '\n') ++end;
  } else if (text[1] == ']') {
    while (end < text.size() && text[end] != '\a' && text[end] != '\x1b' && text[end] != '\n') ++end;
    if (end + 1 < text.size() && text[end] == '\x1b' && text[end + 1] == '\\') ++end;
  } else {
    return text[1] == '(' || text[1] == ')' ? std::min<std::size_t>(3, text.size()) : 2;
  }
  return end < text.size() && text[end] != '\n' ? end + 1 : end;
}

// Calls take(line) for each line of the text, without its end, and puts what it returns in its place.
template <class Take>
std::string line_by_line(std::string_view text, const Take& take) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto end = text.find('\n');
    out += take(text.substr(0, end));
    if (end == std::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

// A log as one JSON object a line: {"log": "text\n", "stream": "stderr", "time": "2026-01-06T10:00:00Z"} of docker's
// driver, and its like with the text under another of these keys.
std::string unwrapped(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::string(line);
  const auto string_of = [&](std::initializer_list<const char*> keys) -> std::optional<std::string> {
    for (const char* key : keys)
      if (const auto at = json.find(key); at != json.end() && at->is_string()) return at->get<std::string>();
    return std::nullopt;
  };
  auto text = string_of({"log", "message", "msg", "textPayload", "data"});
  if (!text) return std::string(line);
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  std::ranges::replace(*text, '\n', ' ');
  const auto time = string_of({"time", "timestamp", "ts", "@timestamp"});
  // A severity that the text does not repeat.
  auto level = string_of({"severity", "level", "levelname"});
  if (level) {
    std::ranges::transform(*level, level->begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const bool bad = std::ranges::any_of(std::initializer_list<const char*>{"WARN", "ERR", "FATAL", "CRIT"},
                                         [&](const char* word) { return level->starts_with(word); });
    if (bad && text->find(*level) == std::string::npos) *text = *level + " " + *text;
  }
  return time ? *time + " " + *text : *text;
}

// The first line is a whole object with a text under one of the keys.
bool is_wrapped(std::string_view first) {
  if (!first.starts_with('{') || !first.ends_with('}')) return false;
  const bool named = std::ranges::any_of(
      std::initializer_list<std::string_view>{"\"log\"", "\"message\"", "\"msg\"", "\"textPayload\"", "\"data\""},
      [&](std::string_view key) { return first.find(key) != std::string_view::npos; });
  return named && unwrapped(first) != first;
}

}  // namespace

int number_at(std::string_view text, std::size_t at) {
  int value = 0;
  std::size_t digits = 0;
  for (; at + digits < text.size() && digit(text[at + digits]) && digits < 8; ++digits)
    value = 10 * value + (text[at + digits] - '0');
  return digits > 0 ? value : -1;
}

int number_behind(std::string_view text, std::string_view word) {
  const auto at = text.find(word);
  return at == std::string_view::npos ? -1 : number_at(text, at + word.size());
}

JobLine strip_launcher(std::string_view line) {
  constexpr int kMostLayers = 6;
  JobLine found;
  // Logs that were indented or quoted as a whole: "    [1,0]<stdout>:", "> NCCL WARN …".
  if (const auto first = line.find_first_not_of(" \t"); first != std::string_view::npos) {
    const std::string_view rest = line.substr(first);
    if (first > 0 && rest.starts_with('[') && rest.substr(0, 24).find("<std") != std::string_view::npos)
      line = rest;
    else if (rest.starts_with("> ") && rest.size() > 2)
      line = rest.substr(2);
  }
  for (int layer = 0; layer < kMostLayers && !line.empty(); ++layer)
    if (!strip_one(line, found)) break;
  found.text = line;
  return found;
}

std::string plain_text(std::string text) {
  if (text.find('\x1b') != std::string::npos) {
    std::string kept;
    kept.reserve(text.size());
    const std::string_view all = text;
    for (std::size_t at = 0; at < all.size();) {
      const auto escape = std::min(all.find('\x1b', at), all.size());
      kept += all.substr(at, escape - at);
      at = escape < all.size() ? escape + control_sequence(all.substr(escape)) : escape;
    }
    text = std::move(kept);
  }
  if (text.find("\r\n") != std::string::npos)
    text = line_by_line(text, [](std::string_view line) {
      while (line.ends_with('\r')) line.remove_suffix(1);
      return line;
    });
  const auto start = text.find_first_not_of(" \t\n");
  if (start == std::string::npos) return text;
  const std::string_view first = std::string_view(text).substr(start, text.find('\n', start) - start);
  if (is_wrapped(first)) text = line_by_line(text, unwrapped);
  return text;
}

std::string without_prefixes(std::string text) {
  std::size_t lines = 0, prefixed = 0;
  line_by_line(text, [&](std::string_view line) {
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    lines += blank ? 0 : 1;
    prefixed += !blank && strip_launcher(line).text.size() < line.size() ? 1 : 0;
    return std::string_view();
  });
  if (5 * prefixed < 4 * lines || prefixed == 0) return text;
  return line_by_line(text, [](std::string_view line) { return strip_launcher(line).text; });
}

std::string without_infinities(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    bool replaced = false;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
      if (!quoted && text.substr(i).starts_with(word)) {
        out += "null";
        out.resize(out.size() + word.size() - std::min<std::size_t>(4, word.size()), ' ');  // columns stay
        i += word.size() - 1;
        replaced = true;
        break;
      }
    if (!replaced) out += text[i];
  }
  return out;
}

Result<std::string> read_job_text(const std::filesystem::path& file) {
  WEFT_TRY(std::string text, read_text_file(file));
  return without_prefixes(plain_text(std::move(text)));
}

}  // namespace weft
