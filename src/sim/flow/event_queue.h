#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/units.h"

namespace weft::sim {

// Events in order of time, then of insertion. Most events of a simulation follow "now" by one of a few delays (a path's
// latency, a slice's transfer time); events of one delay are already in order, so each of these delays has a plain
// first-in-first-out line. All others share a heap.
// Requires: nothing is pushed before the time of the last event popped.
template <class Payload>
class EventQueue {
 public:
  struct Event {
    Duration time;
    std::uint64_t order;
    Payload payload;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : order > o.order; }
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  void push(Duration now, Duration delay, const Payload& payload) {
    ++size_;
    const Event event{now + delay, order_++, payload};
    for (std::size_t i = 0; i < used_; ++i)
      if (delays_[i] == delay) return lines_[i].push(event);
    // A new delay takes a line while there are free or idle ones.
    for (std::size_t i = 0; i < kLines; ++i) {
      if (i < used_ && !lines_[i].empty()) continue;
      used_ = std::max(used_, i + 1);
      delays_[i] = delay;
      return lines_[i].push(event);
    }
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  // When the next event happens. Requires: not empty.
  Duration next_time() const {
    const Line* line = earliest_line();
    if (line == nullptr) return heap_.front().time;
    return heap_.empty() ? line->front().time : std::min(line->front().time, heap_.front().time);
  }

  // Requires: not empty.
  Event pop() {
    --size_;
    Line* earliest = const_cast<Line*>(earliest_line());
    if (!heap_.empty() && (earliest == nullptr || earliest->front() > heap_.front())) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
      const Event event = heap_.back();
      heap_.pop_back();
      return event;
    }
    return earliest->pop();
  }

 private:
  static constexpr std::size_t kLines = 12;

  // A ring buffer whose size is a power of two.
  struct Line {
    std::vector<Event> ring;
    std::size_t first = 0, count = 0;

    bool empty() const { return count == 0; }
    const Event& front() const { return ring[first]; }
    void push(const Event& event) {
      if (count == ring.size()) {
        std::vector<Event> larger(std::max<std::size_t>(64, 2 * count));
        for (std::size_t i = 0; i < count; ++i) larger[i] = ring[(first + i) & (ring.size() - 1)];
        ring = std::move(larger);
        first = 0;
      }
      ring[(first + count++) & (ring.size() - 1)] = event;
    }
    Event pop() {
      const Event event = ring[first];
      first = (first + 1) & (ring.size() - 1);
      --count;
      return event;
    }
  };

  // Null: all are empty.
  const Line* earliest_line() const {
    const Line* earliest = nullptr;
    for (std::size_t i = 0; i < used_; ++i)
      if (!lines_[i].empty() && (earliest == nullptr || earliest->front() > lines_[i].front())) earliest = &lines_[i];
    return earliest;
  }

  std::array<Duration, kLines> delays_;
  std::array<Line, kLines> lines_;
  std::size_t used_ = 0, size_ = 0;
  std::vector<Event> heap_;
  std::uint64_t order_ = 0;
};

}  // namespace weft::sim
