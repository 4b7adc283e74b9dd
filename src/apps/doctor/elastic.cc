#include "apps/doctor/elastic.h"

#include <fmt/format.h>

#include <cstdlib>

#include "machine/import/text_lines.h"

namespace weft::doctor {
namespace {

constexpr std::size_t kMostSummaries = 4096;
constexpr int kKilled = -9;

}  // namespace

const std::vector<std::string_view>& ElasticSummary::words() {
  static const std::vector<std::string_view> kWords = {"Root Cause (first observed failure)",
                                                       "Failures:",
                                                       "time      :",
                                                       "host      :",
                                                       "rank      :",
                                                       "exitcode  :",
                                                       "traceback :"};
  return kWords;
}

void ElasticSummary::line(std::string_view text, const std::string& file, int number) {
  const std::string_view content = topology::trimmed(text);
  const bool failures = content.starts_with("Failures:"),
             first = content.starts_with("Root Cause (first observed failure)");
  const bool open = !summaries_.empty() && summaries_.back().file == file && summaries_.back().first == 0;
  if (failures || (first && !open)) {
    if (summaries_.size() >= kMostSummaries) return;
    summaries_.push_back({.file = file});
  }
  if (first) summaries_.back().first = number;
  in_first_ = first || (in_first_ && !failures);
  const auto colon = content.find(':');
  if (failures || first || colon == std::string_view::npos || summaries_.empty() || summaries_.back().file != file)
    return;
  Summary& summary = summaries_.back();
  const std::string_view key = topology::trimmed(content.substr(0, colon));
  const std::string value(topology::trimmed(content.substr(colon + 1)));
  if (!in_first_) {
    const bool killed = (key == "exitcode" && std::atoi(value.c_str()) == kKilled) ||
                        (key == "traceback" && value.starts_with("Signal 9"));
    if (killed && summary.first == 0) summary.killed.push_back(number);
    return;
  }
  if (key == "time") summary.time = value;
  if (key == "host") summary.host = value;
  if (key == "rank") summary.rank = value.substr(0, value.find(' '));
  if (key == "exitcode") summary.exit = std::atoi(value.c_str());
  if (key == "traceback") summary.traceback = value, in_first_ = false;
}

void ElasticSummary::finish(const Finder& found) const {
  for (const Summary& s : summaries_) {
    if (s.first == 0 || s.rank.empty() || (s.exit <= 0 && s.exit != kKilled)) continue;
    const bool explained =
        !s.traceback.empty() && !s.traceback.starts_with("To enable traceback") && !s.traceback.starts_with("Signal ");
    if (explained) continue;  // the exception stands in the summary
    found(s.exit == kKilled ? "W06" : "S25",
          {.file = s.file,
           .text = fmt::format("weft: elastic: rank {} on {} {} first, at {}, exit code {}", s.rank, s.host,
                               s.exit == kKilled ? "was killed" : "failed", s.time, s.exit),
           .host = s.host,
           .source = "pytorch",
           .line = s.first,
           .rank = std::atoi(s.rank.c_str())});
  }
}

std::vector<std::pair<std::string, int>> ElasticSummary::ended_by_agent() const {
  std::vector<std::pair<std::string, int>> lines;
  for (const Summary& s : summaries_)
    if (s.first > 0)
      for (const int line : s.killed) lines.emplace_back(s.file, line);
  return lines;
}

}  // namespace weft::doctor
