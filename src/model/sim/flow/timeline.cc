#include "model/sim/flow/timeline.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace weft::sim {

using protocol::End;

void Timeline::span(Rank rank, int strand, const protocol::Operation& operation, Duration begin, Duration end) {
  if (spans_.size() == kMost) {
    ++left_out_;
    return;
  }
  const auto peer = [](const auto& ends) {
    for (const End& e : ends)
      if (e.kind != End::Kind::kLocal) return e.peer;
    return Rank{-1};
  };
  const Rank to = operation.signals() ? operation.peer : peer(operation.destinations);
  spans_.push_back({begin, end, rank, strand, operation.bytes, peer(operation.sources), to});
}

void Timeline::mark(Rank rank, Duration begin, Duration end, std::string_view cause) {
  if (marks_.size() == kMost)
    ++left_out_;
  else
    marks_.push_back({begin, end, rank, cause});
}

void Timeline::level(MaxMin::Resource resource, Duration at, double change) {
  const auto r = static_cast<std::size_t>(resource);
  if (now_.size() <= r) {
    now_.resize(r + 1);
    last_level_.resize(r + 1, -1);
  }
  now_[r] += change;
  // Several changes at one time are one.
  if (last_level_[r] >= 0 && levels_[static_cast<std::size_t>(last_level_[r])].at == at) {
    levels_[static_cast<std::size_t>(last_level_[r])].share = now_[r];
    return;
  }
  if (levels_.size() == kMost) {
    ++left_out_;
    return;
  }
  last_level_[r] = static_cast<std::int64_t>(levels_.size());
  levels_.push_back({at, resource, now_[r]});
}

std::string Timeline::to_trace(const std::function<std::string(MaxMin::Resource)>& name_of) const {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const auto to = std::back_inserter(out);
  std::vector<bool> named;
  for (const Span& s : spans_) {
    if (named.size() <= static_cast<std::size_t>(s.rank)) named.resize(static_cast<std::size_t>(s.rank) + 1);
    if (!named[static_cast<std::size_t>(s.rank)]) {
      named[static_cast<std::size_t>(s.rank)] = true;
      fmt::format_to(to,
                     R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}},)"
                     "\n",
                     s.rank);
    }
    const std::string name = s.from >= 0 && s.to >= 0 ? fmt::format("{} -> {}", s.from, s.to)
                             : s.from >= 0            ? fmt::format("from {}", s.from)
                             : s.to >= 0              ? fmt::format("to {}", s.to)
                                                      : "copy";
    fmt::format_to(to,
                   R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{:.6f},"dur":{:.6f},"args":{{"bytes":{}}}}},)"
                   "\n",
                   name, s.rank, s.strand, s.begin.us(), (s.end - s.begin).us(), s.bytes);
  }
  for (const Mark& m : marks_)
    fmt::format_to(
        to,
        R"({{"ph":"X","name":"{}","pid":"critical path","tid":0,"ts":{:.6f},"dur":{:.6f},"args":{{"rank":{}}}}},)"
        "\n",
        m.cause, m.begin.us(), (m.end - m.begin).us(), m.rank);
  for (const Level& l : levels_)
    fmt::format_to(to,
                   R"({{"ph":"C","name":"{}","pid":"links","ts":{:.6f},"args":{{"% used":{:.2f}}}}},)"
                   "\n",
                   name_of(l.resource), l.at.us(), std::abs(100 * l.share));
  fmt::format_to(to,
                 R"({{"ph":"M","name":"trace_end","pid":0,"args":{{"left_out":{}}}}}]}})"
                 "\n",
                 left_out_);
  return out;
}

}  // namespace weft::sim
