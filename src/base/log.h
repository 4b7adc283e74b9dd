#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace weft {

enum class LogLevel : std::uint8_t { kNone, kWarn, kInfo, kTrace };

// What a line is about.
enum class LogPart : std::uint8_t {
  kInit,   // place in the job, environment
  kNet,    // interfaces, connections
  kPath,   // how this rank reaches every other
  kPlan,   // algorithm, protocol, channels of every first call, and the runner-up
  kCall,   // every call
  kFault,  // retries, ranks that died, communicators that broke
};

// The value of WEFT_DEBUG. Errors (bad input): another word.
Result<LogLevel> parse_log_level(std::string_view what, std::string_view text);
// A list such as "NET,PLAN" or "^CALL" (all but these); empty or "ALL": all. NCCL's names are understood. One bit per
// part. Errors (bad input): another word.
Result<unsigned> parse_log_parts(std::string_view what, const std::string& text);

// Lines about what weft does and why, of one rank, to stderr or to a file. One that writes nothing costs a comparison.
// Thread: any; a line is one write.
class Log {
 public:
  Log() = default;  // writes nothing
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  struct Options {
    LogLevel level = LogLevel::kNone;
    unsigned parts = ~0U;
    std::string file;  // empty: stderr; %r is the rank, %p the process, %h the host
  };
  // Errors (bad input): the file cannot be opened.
  static Result<std::shared_ptr<const Log>> open(const Options& options, Rank rank);

  bool writes(LogLevel level, LogPart part) const {
    return level <= level_ && (parts_ >> static_cast<unsigned>(part) & 1U) != 0;
  }
  template <class... Args>
  void info(LogPart part, fmt::format_string<Args...> format, Args&&... args) const {
    if (writes(LogLevel::kInfo, part)) write(LogLevel::kInfo, part, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void trace(LogPart part, fmt::format_string<Args...> format, Args&&... args) const {
    if (writes(LogLevel::kTrace, part)) write(LogLevel::kTrace, part, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(LogPart part, fmt::format_string<Args...> format, Args&&... args) const {
    if (writes(LogLevel::kWarn, part)) write(LogLevel::kWarn, part, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void write(LogLevel level, LogPart part, const std::string& text) const;

  LogLevel level_ = LogLevel::kNone;
  unsigned parts_ = 0;
  std::FILE* file_ = nullptr;  // null: stderr
  std::string origin_;         // "host:process [rank]"
};

}  // namespace weft
