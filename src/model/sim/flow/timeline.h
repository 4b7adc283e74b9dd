#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/sim/flow/max_min.h"
#include "plan/protocol/operation.h"

namespace weft::sim {

// What happened in a simulation: who was at what from when to when, and how busy links were. Keeps the first kMost of
// both; left_out() counts the rest.
class Timeline {
 public:
  static constexpr std::size_t kMost = 1'000'000;

  void span(Rank rank, int strand, const protocol::Operation& operation, Duration begin, Duration end);
  // A piece of the critical path, on this rank.
  void mark(Rank rank, Duration begin, Duration end, std::string_view cause);
  // The used part of the resource changes by `change`.
  void level(MaxMin::Resource resource, Duration at, double change);
  std::int64_t left_out() const { return left_out_; }

  struct Span {
    Duration begin, end;
    Rank rank;
    std::int32_t strand;
    Bytes bytes;
    Rank from, to;  // of messages, loads and stores; -1: none
  };
  const std::vector<Span>& spans() const { return spans_; }

  // `cause` of marks must stay valid. Chrome's trace event format, which Perfetto reads: a process per rank with a
  // thread per strand, and a counter of per cent in use per link. Source: Trace Event Format, Google, 2016. Unit:
  // microseconds.
  std::string to_trace(const std::function<std::string(MaxMin::Resource)>& name_of) const;

 private:
  struct Level {
    Duration at;
    MaxMin::Resource resource;
    double share;
  };
  struct Mark {
    Duration begin, end;
    Rank rank;
    std::string_view cause;
  };
  std::vector<Span> spans_;
  std::vector<Mark> marks_;
  std::vector<Level> levels_;
  std::vector<double> now_;               // by resource
  std::vector<std::int64_t> last_level_;  // by resource: the index of its last level; -1: none
  std::int64_t left_out_ = 0;
};

}  // namespace weft::sim
