#include "exec/recorder/timeline.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <tuple>

#include "base/text_file.h"

namespace weft::recorder {
namespace {

using nlohmann::json;

void add_up(RankTimes& times, const json& event) {
  const std::string category = event.value("cat", "");
  const double took = event.value("dur", 0.0);
  if (category == "call") {
    ++times.calls;
    times.in_calls += took;
  } else if (category == "wait") {
    times.waiting += took;
    times.waiting_for[event.at("args").value("for", Rank{-1})] += took;
  }
}

void identify(RankTimes& times, const json& arguments) {
  times.job = arguments.value("job", "");
  times.communicator = arguments.value("communicator", "");
  times.rank = arguments.value("rank", Rank{0});
  times.ranks = arguments.value("ranks", Rank{1});
  times.opened = arguments.value("opened_ns", std::int64_t{0});
}

// One event a line, each with a comma at its end. Throws json::exception where one is not as it should be.
bool read_line(std::string line, RankTimes& times, std::vector<json>& events) {
  if (line.empty() || line == "[" || line == "]") return true;
  if (line.back() == ',') line.pop_back();
  json event = json::parse(line, nullptr, false);
  if (!event.is_object()) return false;
  for (const char* time : {"ts", "dur"})
    if (event.contains(time) && !event.at(time).is_number()) return false;
  if (event.value("name", "") == "weft") identify(times, event.at("args"));
  if (event.value("name", "") == "weft links") event.at("args").at("links").get_to(times.rails);
  add_up(times, event);
  events.push_back(std::move(event));
  return true;
}

void shift(std::vector<json>& events, double by) {
  for (json& e : events)
    if (e.contains("ts")) e["ts"] = e.at("ts").get<double>() + by;
}

double first_of(const std::vector<json>& events) {
  double first = std::numeric_limits<double>::max();
  for (const json& e : events)
    if (e.contains("ts")) first = std::min(first, e.at("ts").get<double>());
  return first;
}

constexpr std::uintmax_t kLargestTrace = std::uintmax_t{1} << 30;  // bytes: ten million events of a rank

Status read_trace(const std::string& path, Timeline& timeline) {
  WEFT_TRY(const std::string text, read_text_file(path, kLargestTrace));
  std::istringstream in(text);
  RankTimes times;
  std::vector<json> events;
  std::string line;
  int number = 0;
  while (std::getline(in, line)) {
    ++number;
    const bool last = in.eof();  // without its end
    bool well = false;
    try {
      well = read_line(line, times, events);
    } catch (const json::exception&) {
    }
    if (!well && !last) return bad_input("{}:{}: not an event of a trace", path, number);
    times.breaks_off |= !well;
    if (number == 2 && times.job.empty()) return bad_input("{}: not a trace of weft (weft.trace/1)", path);
  }
  if (number < 2) return bad_input("{}: not a trace of weft (weft.trace/1)", path);
  // Times in a file count from its opening; here from the opening of the first file that was read.
  if (timeline.ranks.empty()) timeline.opened = times.opened;
  shift(events, static_cast<double>(times.opened - timeline.opened) * 1e-3);
  timeline.ranks.push_back(std::move(times));
  std::move(events.begin(), events.end(), std::back_inserter(timeline.events));
  return {};
}

}  // namespace

Result<Timeline> merge_traces(const std::vector<std::string>& files) {
  Timeline timeline;
  for (const std::string& path : files) WEFT_CHECK(read_trace(path, timeline));
  shift(timeline.events, -first_of(timeline.events));
  std::sort(timeline.ranks.begin(), timeline.ranks.end(), [](const RankTimes& a, const RankTimes& b) {
    return std::tie(a.job, a.communicator, a.rank) < std::tie(b.job, b.communicator, b.rank);
  });
  return timeline;
}

}  // namespace weft::recorder
