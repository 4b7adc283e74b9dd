#include "apps/doctor/elastic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "machine/import/text_lines.h"

namespace weft::doctor {
namespace {

constexpr std::size_t kMostSummaries = 4096, kMostBlocks = 65536;

// An exit code names a rule, and words.
struct Ending {
  int exit;
  std::string_view rule, words;
};
constexpr Ending kEndings[] = {
    {-9, "W06", "was killed"},      {-11, "W09", "crashed (SIGSEGV)"}, {-7, "F012", "ended with a bus error (SIGBUS)"},
    {-8, "S25", "failed (SIGFPE)"}, {-4, "S25", "failed (SIGILL)"},    {-6, "S25", "aborted (SIGABRT)"}};

Ending ending_of(int exit) {
  for (const Ending& one : kEndings)
    if (one.exit == exit) return one;
  return {exit, exit > 0 ? "S25" : "", "failed"};
}

}  // namespace

const std::vector<std::string_view>& ElasticSummary::words() {
  static const std::vector<std::string_view> kWords = {"Root Cause (first observed failure)",
                                                       "Failures:",
                                                       "time      :",
                                                       "host      :",
                                                       "rank      :",
                                                       "exitcode  :",
                                                       "traceback :",
                                                       "=====",
                                                       "-----"};
  return kWords;
}

void ElasticSummary::line(std::string_view text, const std::string& file, int number) {
  const std::string_view content = topology::trimmed(text);
  const bool failures = content.starts_with("Failures:"),
             first = content.starts_with("Root Cause (first observed failure)");
  const bool open = !summaries_.empty() && summaries_.back().file == file && summaries_.back().first == 0;
  if (failures || (first && !open)) {
    if (summaries_.size() >= kMostSummaries) return;
    traced_ = nullptr;
    summaries_.push_back({.file = file});
  }
  if (first) summaries_.back().first = number;
  in_first_ = first || (in_first_ && !failures);
  if (traced_ != nullptr && (content.starts_with("=====") || content.starts_with("-----")))
    traced_->end = number, traced_ = nullptr;
  const auto colon = content.find(':');
  if (failures || first || colon == std::string_view::npos || summaries_.empty() || summaries_.back().file != file)
    return;
  Summary& summary = summaries_.back();
  const std::string_view key = topology::trimmed(content.substr(0, colon));
  const std::string value(topology::trimmed(content.substr(colon + 1)));
  if (!in_first_ && summary.first > 0) return;  // behind the summary
  if (!in_first_ && key == "time" && summary.others.size() < kMostBlocks) {
    if (traced_ != nullptr) traced_->end = number - 1, traced_ = nullptr;
    summary.others.push_back({.begin = number});
  }
  if (!in_first_ && summary.others.empty()) return;
  Block& block = in_first_ ? summary.root : summary.others.back();
  if (block.begin == 0) block.begin = number;
  block.end = number;
  if (key == "time") block.time = value;
  if (key == "host") block.host = value;
  if (key == "rank") block.rank = value.substr(0, value.find(' '));
  if (key == "exitcode") block.exit = std::atoi(value.c_str());
  if (key == "traceback") {
    block.traceback = value, in_first_ = false;
    if (value.starts_with("Traceback")) block.end = std::numeric_limits<int>::max(), traced_ = &block;
  }
}

void ElasticSummary::finish(const Finder& found) const {
  for (const Summary& s : summaries_) {
    const Block& b = s.root;
    const Ending ending = ending_of(b.exit);
    if (s.first == 0 || b.rank.empty() || b.exit == 0 || ending.rule.empty()) continue;
    const bool explained =
        !b.traceback.empty() && !b.traceback.starts_with("To enable traceback") && !b.traceback.starts_with("Signal ");
    if (explained) continue;  // the exception stands in the summary
    found(ending.rule, {.file = s.file,
                        .text = fmt::format("weft: elastic: rank {} on {} {} first, at {}, exit code {}", b.rank,
                                            b.host, ending.words, b.time, b.exit),
                        .host = b.host,
                        .source = "pytorch",
                        .line = s.first,
                        .rank = std::atoi(b.rank.c_str()),
                        .part = b.host.empty() ? "" : "node " + b.host});
  }
}

std::vector<std::pair<std::string, int>> ElasticSummary::not_first() const {
  std::vector<std::pair<std::string, int>> lines;
  for (const Summary& s : summaries_)
    if (s.first > 0)
      for (const Block& b : s.others)
        for (int line = b.begin; line <= std::min(b.end, s.first); ++line) lines.emplace_back(s.file, line);
  return lines;
}

ElasticSummary::Place ElasticSummary::place_of(const std::string& file, int line) const {
  const auto holds = [&](const Block& b) { return b.begin > 0 && line >= b.begin && line <= b.end; };
  const auto place = [](const Block& b) { return Place{b.rank.empty() ? -1 : std::atoi(b.rank.c_str()), b.host}; };
  for (const Summary& s : summaries_) {
    if (s.file != file) continue;
    if (holds(s.root)) return place(s.root);
    for (const Block& b : s.others)
      if (holds(b)) return place(b);
  }
  return {};
}

}  // namespace weft::doctor
