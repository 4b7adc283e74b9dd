#pragma once

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "plan/schedule/verify/strand.h"
#include "plan/schedule/verify/verify.h"

namespace weft::schedule::symbolic {

// The first thing that was found wrong, and its line for a person. Keeps a reference to the schedule.
class Report {
 public:
  explicit Report(const Schedule& schedule) : schedule_(schedule) {}

  bool failed() const { return finding_.has_value(); }
  std::optional<Finding> take() { return std::move(finding_); }

  // Reports a finding at the next step of `where`, or at its end.
  template <class... Args>
  void fail(Finding::Kind kind, const Strand& where, ChunkId chunk, Rank peer, fmt::format_string<Args...> format,
            Args&&... args) {
    const auto& steps = schedule_.strand(where.rank, where.lane);
    const int step = where.next < steps.size() ? static_cast<int>(where.next) : -1;
    const std::string place =
        step >= 0 ? fmt::format("step {} ({})", step, to_string(steps[where.next])) : "at the end";
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    finding_ = Finding{
        kind,
        where.rank,
        where.lane,
        step,
        chunk,
        peer,
        fmt::format("{}: rank {} lane {} {}: {}", name(kind), where.rank, where.lane, place, what),
    };
  }

 private:
  const Schedule& schedule_;
  std::optional<Finding> finding_;
};

}  // namespace weft::schedule::symbolic
