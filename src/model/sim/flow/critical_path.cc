#include "model/sim/flow/critical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace weft::sim {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

std::string_view name(Cause cause) {
  switch (cause) {
    case Cause::kLaunch:
      return "launch";
    case Cause::kHop:
      return "hops";
    case Cause::kLink:
      return "link";
    case Cause::kChannel:
      return "channel rate";
    case Cause::kCopy:
      return "copy and reduce";
    case Cause::kProxy:
      return "proxy";
    case Cause::kHost:
      return "host memory";
    case Cause::kSlot:
      return "slot";
    case Cause::kSum:
      return "switch sums";
    case Cause::kRest:
      return "fence";
    case Cause::kStrand:
      return "other strand";
    case Cause::kJitter:
      return "jitter";
    case Cause::kSlowRank:
      return "slow rank";
    case Cause::kStaging:
      return "staging";
  }
  return "";
}

void CriticalPath::begin(std::int32_t actor, Duration now, double slowness) {
  Actor& a = actors_[index(actor)];
  if (steps_.size() > kMost) return;
  const bool woken = a.woken_by >= 0;
  steps_.push_back({.begin = now,
                    .end = now,
                    .fence = {},
                    .jitter = {},
                    .actor = actor,
                    .by = woken ? a.woken_by : a.latest,
                    .edge = woken ? a.edge : Edge::kOwn,
                    .slowness = static_cast<float>(slowness)});
  a.latest = static_cast<std::int32_t>(steps_.size()) - 1;
  a.woken_by = -1;
}

void CriticalPath::loads(std::int32_t actor, MaxMin::Way way, double alone, double cap) {
  if (steps_.size() > kMost) return;
  Step& step = steps_[index(actors_[index(actor)].latest)];
  if (static_cast<float>(alone) < step.alone) return;
  step.way = way;
  step.alone = static_cast<float>(alone);
  step.cap = static_cast<float>(cap);
}

void CriticalPath::delayed(std::int32_t actor, Duration now) {
  if (steps_.size() <= kMost) steps_[index(actors_[index(actor)].latest)].jitter = now;
}

void CriticalPath::end(std::int32_t actor, Duration now, Part last, Duration fence) {
  if (steps_.size() > kMost) return;
  Step& step = steps_[index(actors_[index(actor)].latest)];
  step.end = now;
  step.fence = fence;
  if (step.jitter > Duration()) step.jitter = now - step.jitter;
  step.part = step.jitter > Duration() ? step.part : last;
}

void CriticalPath::wake(std::int32_t actor, std::int32_t step, Edge edge) {
  if (actor < 0 || step < 0) return;
  actors_[index(actor)].woken_by = step;
  actors_[index(actor)].edge = edge;
}

void CriticalPath::sent(std::int32_t connection, std::int32_t actor) {
  if (under_way_.size() <= index(connection)) under_way_.resize(index(connection) + 1);
  under_way_[index(connection)].push_back(step_of(actor));
}

std::int32_t CriticalPath::arrived(std::int32_t connection) {
  std::deque<std::int32_t>& steps = under_way_[index(connection)];
  const std::int32_t step = steps.front();
  steps.pop_front();
  return step;
}

CriticalPath::Walked CriticalPath::walk(Duration total, const std::function<Limit(MaxMin::Way)>& link_of,
                                        const std::function<std::int32_t(std::int32_t)>& rank_of) const {
  Walked walked;
  if (steps_.size() > kMost || steps_.empty()) return walked;
  std::map<std::pair<Cause, std::string>, Duration> times;
  const auto book = [&](Cause cause, const std::string& where, Duration from, Duration to, std::int32_t actor) {
    if (to <= from) return;
    times[{cause, where}] += to - from;
    walked.pieces.push_back({from, to, actor, cause});
  };
  const auto of_step = [&](const Step& step, bool slot) {
    const Duration work_end = step.end - step.jitter;
    book(Cause::kJitter, "", work_end, step.end, step.actor);
    const Duration base_end = step.begin + (work_end - step.begin) * (1.0 / step.slowness);
    if (step.slowness > 1)
      book(Cause::kSlowRank, fmt::format("rank {}", rank_of(step.actor)), base_end, work_end, step.actor);
    if (slot) return book(Cause::kSlot, "", step.begin, base_end, step.actor);
    switch (step.part) {
      case Part::kTransfer: {
        if (step.way < 0) return book(Cause::kCopy, "", step.begin, base_end, step.actor);
        const Limit limit = link_of(step.way);
        const bool alone = (work_end - step.begin).s() <= 1.01 * static_cast<double>(step.alone);
        const bool fills = static_cast<double>(step.cap) * static_cast<double>(step.slowness) >= 0.99 * limit.capacity;
        if (alone && !fills) return book(Cause::kChannel, "", step.begin, base_end, step.actor);
        return book(Cause::kLink, limit.link, step.begin, base_end, step.actor);
      }
      case Part::kProxy:
        return book(Cause::kProxy, "", step.begin, base_end, step.actor);
      case Part::kHost:
        return book(Cause::kHost, "", step.begin, base_end, step.actor);
      case Part::kCopy:
      case Part::kNothing:
        return book(Cause::kCopy, "", step.begin, base_end, step.actor);
    }
  };
  std::int32_t at = 0;
  for (std::int32_t s = 1; s < static_cast<std::int32_t>(steps_.size()); ++s)
    if (steps_[index(s)].end >= steps_[index(at)].end) at = s;
  book(Cause::kRest, "", steps_[index(at)].end, total, steps_[index(at)].actor);
  for (bool slot = false; at >= 0;) {
    const Step& step = steps_[index(at)];
    of_step(step, slot);
    const Duration before = step.by >= 0 ? steps_[index(step.by)].end : Duration();
    Cause cause = Cause::kLaunch;
    if (step.by >= 0) {
      const Duration gap = step.begin - before;
      switch (step.edge) {
        case Edge::kMessage:
          cause = Cause::kHop;
          break;
        case Edge::kSum:
          cause = Cause::kSum;
          break;
        case Edge::kSlot:
          cause = Cause::kSlot;
          break;
        case Edge::kOwn:
          cause = gap <= steps_[index(step.by)].fence ? Cause::kRest : gap <= launch_ ? Cause::kLaunch : Cause::kStrand;
          break;
      }
    }
    book(cause, "", before, step.begin, step.actor);
    slot = step.by >= 0 && step.edge == Edge::kSlot;
    at = step.by;
  }
  for (const auto& [what, time] : times) walked.shares.push_back({what.first, what.second, time});
  std::ranges::stable_sort(walked.shares, std::greater{}, &PathShare::time);
  std::ranges::reverse(walked.pieces);
  return walked;
}

}  // namespace weft::sim
