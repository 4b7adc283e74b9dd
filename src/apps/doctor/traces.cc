#include "apps/doctor/traces.h"

#include <algorithm>

#include "base/text.h"

namespace weft::doctor {
namespace {

// A rank is late if it waits less than half as long as the others, and they lose this part of the run by it.
constexpr double kLate = 0.05;

std::string time_of(double microseconds) { return format_duration(Duration::microseconds(microseconds)); }

}  // namespace

bool Traces::is_trace(std::string_view text) {
  return text.starts_with("[") && text.substr(0, 1024).find("\"weft.trace/1\"") != std::string_view::npos;
}

Status Traces::add(const std::string& file) {
  WEFT_TRY(const recorder::Timeline timeline, recorder::merge_traces({file}));
  double span = 0;
  for (const auto& event : timeline.events) span = std::max(span, event.value("ts", 0.0) + event.value("dur", 0.0));
  for (const recorder::RankTimes& times : timeline.ranks)
    communicators_[{times.job, times.communicator}].push_back({times, file, span});
  return {};
}

void Traces::finish(const Finder& found) const {
  for (const auto& [name, ranks] : communicators_) {
    if (ranks.size() < 2) continue;
    const auto fact = [&](const OfRank& of, std::string text) {
      return Fact{.file = of.file, .text = std::move(text), .source = "trace", .rank = of.times.rank};
    };
    const bool all = std::ranges::all_of(ranks, [](const OfRank& of) { return of.times.breaks_off; });
    for (const OfRank& of : ranks)
      if (of.times.breaks_off && !all)
        found("W34", fact(of, fmt::format("weft: the trace of rank {} of {} breaks off after {} calls", of.times.rank,
                                          shown(name.second), of.times.calls)));
    std::vector<const OfRank*> by_waiting;
    for (const OfRank& of : ranks) by_waiting.push_back(&of);
    std::ranges::sort(by_waiting, {}, [](const OfRank* of) { return of->times.waiting; });
    const OfRank& late = *by_waiting.front();
    const double others =
        by_waiting[by_waiting.size() / 2]->times.waiting;  // the median of the others, the lower one of two
    const double lost = others - late.times.waiting;
    if (late.times.waiting < others / 2 && lost > kLate * late.span)
      found("W33",
            fact(late,
                 fmt::format("weft: rank {} of {} comes late to its {} calls: the others wait {} of {}, it waits {}",
                             late.times.rank, shown(name.second), late.times.calls, time_of(others), time_of(late.span),
                             time_of(late.times.waiting))));
  }
}

}  // namespace weft::doctor
