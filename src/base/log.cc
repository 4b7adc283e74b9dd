#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"NONE", "WARN", "INFO", "TRACE"};
constexpr std::array<std::string_view, 6> kParts = {"INIT", "NET", "PATH", "PLAN", "CALL", "FAULT"};

// NCCL's subsystems, and which part of weft says such things.
constexpr std::pair<std::string_view, LogPart> kPartsOfNccl[] = {
    {"COLL", LogPart::kCall},      {"P2P", LogPart::kPath},    {"SHM", LogPart::kPath},
    {"GRAPH", LogPart::kPath},     {"TUNING", LogPart::kPlan}, {"ENV", LogPart::kInit},
    {"BOOTSTRAP", LogPart::kInit}, {"PROXY", LogPart::kNet},   {"RAS", LogPart::kFault}};

std::string upper(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return all;
}

unsigned bit(LogPart part) { return 1U << static_cast<unsigned>(part); }

Result<unsigned> part_of(std::string_view what, const std::string& word) {
  if (word == "ALL") return ~0U;
  for (std::size_t i = 0; i < kParts.size(); ++i)
    if (word == kParts[i]) return 1U << i;
  for (const auto& [name, part] : kPartsOfNccl)
    if (word == name) return bit(part);
  return bad_input("{} '{}': there are {} and ALL", what, word, fmt::join(kParts, ", "));
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string expand(const std::string& pattern, Rank rank) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : 0;
    if (next == 'r')
      path += fmt::format("{}", rank);
    else if (next == 'p')
      path += fmt::format("{}", getpid());
    else if (next == 'h')
      path += host_name();
    else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view what, std::string_view text) {
  const std::string word = upper(text);
  if (word.empty() || word == "0" || word == "VERSION") return LogLevel::kNone;
  if (word == "1") return LogLevel::kWarn;
  if (word == "ABORT") return LogLevel::kTrace;
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    if (word == kLevels[i]) return static_cast<LogLevel>(i);
  return bad_input("{} '{}': there are WARN, INFO and TRACE", what, text);
}

Result<unsigned> parse_log_parts(std::string_view what, const std::string& text) {
  if (text.empty()) return ~0U;
  const bool without = text.front() == '^';
  unsigned parts = 0;
  for (std::size_t at = without ? 1 : 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    WEFT_TRY(const unsigned more, part_of(what, upper(text.substr(at, end - at))));
    parts |= more;
    at = end + 1;
  }
  return without ? ~parts : parts;
}

Log::~Log() {
  if (file_ != nullptr) std::fclose(file_);
}

Result<std::shared_ptr<const Log>> Log::open(const Options& options, Rank rank) {
  auto log = std::make_shared<Log>();
  if (options.level == LogLevel::kNone) return log;
  log->level_ = options.level;
  log->parts_ = options.parts;
  log->origin_ = fmt::format("{}:{} [{}]", host_name(), getpid(), rank);
  if (!options.file.empty()) {
    const std::string path = expand(options.file, rank);
    log->file_ = std::fopen(path.c_str(), "ae");
    if (log->file_ == nullptr) return bad_input("WEFT_DEBUG_FILE: cannot write {}: {}", path, std::strerror(errno));
    std::setvbuf(log->file_, nullptr, _IOLBF, BUFSIZ);
  }
  return log;
}

void Log::write(LogLevel level, LogPart part, const std::string& text) const {
  const std::string line = fmt::format("{} weft {} {} {}\n", origin_, kLevels[static_cast<std::size_t>(level)],
                                       kParts[static_cast<std::size_t>(part)], shown(text));
  std::fwrite(line.data(), 1, line.size(), file_ != nullptr ? file_ : stderr);
}

}  // namespace weft
