#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "base/units.h"

namespace weft::simulate {

// Something that repeats `count` times, and how long it takes: `run(n)` does it with n repetitions and returns a Result
// of something with members `time` and `represented` (steps, counted). Where it settles into a pace, in which every
// `period` more repetitions take equally long, the time of many follows from that of few. The last run's result, with
// the time of `count` repetitions; `shortened` is set if not all were run.
//   The pace is believed when two successive periods differ by less than kSteady of a period; until then runs become
//   longer, up to all of it. The first ones are some periods long, or one that is long itself: slots and pipelines have
//   filled by then.
inline constexpr double kSteady = 1e-4;
inline constexpr std::int64_t kFirstPeriods = 3, kFirstRepetitions = 64;

template <class Run>
auto steadily(std::int64_t count, std::int64_t period, bool& shortened, Run&& run) -> decltype(run(count)) {
  const std::int64_t shortest = std::max(period, std::min(kFirstPeriods * period, kFirstRepetitions));
  for (std::int64_t warm = shortest; 2 * (3 * warm + 6 * period) < count; warm *= 2) {
    const std::int64_t first = warm + (count - warm) % period;
    WEFT_TRY(const auto a, run(first));
    WEFT_TRY(const auto b, run(first + period));
    WEFT_TRY(auto c, run(first + 2 * period));
    const double before = (b.time - a.time).s(), pace = (c.time - b.time).s();
    if (std::abs(pace - before) > kSteady * std::abs(pace)) continue;
    const auto more = static_cast<double>((count - first) / period - 2);
    c.time += Duration::seconds(pace * more);
    c.represented += (c.represented - b.represented) * more;
    shortened = true;
    return c;
  }
  return run(count);
}

}  // namespace weft::simulate
