#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weft::sim {

// Events in order of time, then of insertion. Most events of a simulation follow "now" by one of a few delays (a path's
// latency, a slice's transfer time); events of one delay are already in order, so each of these delays has a plain
// first-in-first-out line. All others share a heap. Where ranks move alike many events of one line follow each other:
// as long as the line's next event comes before the first one of all others, nothing else is looked at.
//   An event with a key replaces the one of the same key in the heap: a flow whose rate changes often would leave a
// stale event per change there. Stale events in lines stay, so that the caller must recognise them.
// Requires: nothing is pushed before the time of the last event popped.
template <class Payload>
class EventQueue {
 public:
  static constexpr std::int32_t kNoKey = -1;
  struct Event {
    Duration time;
    std::uint64_t order;
    Payload payload;
    std::int32_t key = kNoKey;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : order > o.order; }
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  // Requires: a key is not negative, or kNoKey.
  void push(Duration now, Duration delay, const Payload& payload, std::int32_t key = kNoKey) {
    const Event event{now + delay, order_++, payload, key};
    const std::size_t line = line_for(delay);
    if (line < kLines) {
      ++size_;
      lines_[line].push(event);
      if (lines_[line].count == 1) comes_first_in(line, event);
      return;
    }
    const std::int32_t replaced = place_of(key);
    if (replaced == 0 && earliest_ == kHeap) earliest_ = kNobody;
    if (replaced == kNowhere) {
      ++size_;
      heap_.push_back(event);
      rise(heap_.size() - 1, event);
    } else if (heap_[static_cast<std::size_t>(replaced)] > event) {
      rise(static_cast<std::size_t>(replaced), event);
    } else {
      sink(static_cast<std::size_t>(replaced), event);
    }
    if (heap_.front().order == event.order) comes_first_in(kHeap, event);
  }

  // When the next event happens. Requires: not empty.
  Duration next_time() {
    if (earliest_ == kNobody) find_earliest();
    return front_of(earliest_).time;
  }

  // Requires: not empty.
  Event pop() {
    --size_;
    if (earliest_ == kNobody) find_earliest();
    const std::size_t from = earliest_;
    if (from == kHeap) {
      const Event event = heap_.front(), last = heap_.back();
      heap_.pop_back();
      if (event.key != kNoKey) places_[static_cast<std::size_t>(event.key)] = kNowhere;
      if (!heap_.empty()) sink(0, last);
      if (heap_.empty() || comes_after(heap_.front(), rival_)) earliest_ = kNobody;
      return event;
    }
    const Event event = lines_[from].pop();
    if (lines_[from].empty() || comes_after(lines_[from].front(), rival_)) earliest_ = kNobody;
    return event;
  }

 private:
  static constexpr std::size_t kLines = 12, kHeap = kLines, kNobody = kLines + 1;
  static constexpr std::size_t kChildren = 4;  // of an event of the heap: two cache lines
  static constexpr std::int32_t kNowhere = -1;

  struct Moment {
    Duration time = Duration::max();
    std::uint64_t order = ~std::uint64_t{0};
  };

  // A ring buffer whose size is a power of two.
  struct Line {
    std::vector<Event> ring;
    std::size_t first = 0, count = 0;

    bool empty() const { return count == 0; }
    const Event& front() const { return ring[first]; }
    void push(const Event& event) {
      if (count == ring.size()) grow();
      ring[(first + count++) & (ring.size() - 1)] = event;
    }
    void grow() {
      std::vector<Event> larger(std::max<std::size_t>(64, 2 * count));
      for (std::size_t i = 0; i < count; ++i) larger[i] = ring[(first + i) & (ring.size() - 1)];
      ring = std::move(larger);
      first = 0;
    }
    Event pop() {
      const Event event = ring[first];
      first = (first + 1) & (ring.size() - 1);
      --count;
      return event;
    }
  };

  // Where the heap has the event of a key.
  std::int32_t place_of(std::int32_t key) {
    if (key == kNoKey) return kNowhere;
    if (places_.size() <= static_cast<std::size_t>(key)) places_.resize(static_cast<std::size_t>(key) + 1, kNowhere);
    return places_[static_cast<std::size_t>(key)];
  }
  void put(std::size_t place, const Event& event) {
    heap_[place] = event;
    if (event.key != kNoKey) places_[static_cast<std::size_t>(event.key)] = static_cast<std::int32_t>(place);
  }
  // Puts an event into the heap at this place, or above it.
  void rise(std::size_t place, const Event& event) {
    for (; place > 0; place = (place - 1) / kChildren) {
      const Event& parent = heap_[(place - 1) / kChildren];
      if (event > parent) break;
      put(place, parent);
    }
    put(place, event);
  }
  // Puts an event into the heap at this place, or below it.
  void sink(std::size_t place, const Event& event) {
    for (std::size_t child; (child = kChildren * place + 1) < heap_.size(); place = child) {
      const std::size_t end = std::min(child + kChildren, heap_.size());
      for (std::size_t other = child + 1; other < end; ++other)
        if (heap_[child] > heap_[other]) child = other;
      if (heap_[child] > event) break;
      put(place, heap_[child]);
    }
    put(place, event);
  }

  // kHeap: none is free.
  std::size_t line_for(Duration delay) {
    for (std::size_t i = 0; i < used_; ++i)
      if (delays_[i] == delay) return i;
    // A new delay takes a line while there are free or idle ones.
    for (std::size_t i = 0; i < kLines; ++i) {
      if (i < used_ && !lines_[i].empty()) continue;
      used_ = std::max(used_, i + 1);
      delays_[i] = delay;
      return i;
    }
    return kHeap;
  }

  static bool comes_after(const Event& event, const Moment& m) {
    return event.time != m.time ? event.time > m.time : event.order > m.order;
  }
  const Event& front_of(std::size_t place) const { return place == kHeap ? heap_.front() : lines_[place].front(); }

  // `event` is the first one of this line or of the heap now, and was not before.
  void comes_first_in(std::size_t place, const Event& event) {
    if (place == earliest_ || earliest_ == kNobody || comes_after(event, rival_)) return;
    if (front_of(earliest_) > event)
      earliest_ = kNobody;
    else
      rival_ = {event.time, event.order};
  }

  // Whose first event is the earliest, and the first one of all others.
  void find_earliest() {
    rival_ = {};
    const auto look_at = [&](std::size_t place) {
      const Event& event = front_of(place);
      if (earliest_ != kNobody && event > front_of(earliest_)) {
        if (!comes_after(event, rival_)) rival_ = {event.time, event.order};
        return;
      }
      if (earliest_ != kNobody) rival_ = {front_of(earliest_).time, front_of(earliest_).order};
      earliest_ = place;
    };
    for (std::size_t i = 0; i < used_; ++i)
      if (!lines_[i].empty()) look_at(i);
    if (!heap_.empty()) look_at(kHeap);
  }

  std::array<Duration, kLines> delays_;
  std::array<Line, kLines> lines_;
  std::size_t used_ = 0, size_ = 0;
  std::size_t earliest_ = kNobody;  // a line or the heap; kNobody: not known
  Moment rival_;                    // the first event of all others
  std::vector<Event> heap_;
  std::vector<std::int32_t> places_;  // by key
  std::uint64_t order_ = 0;
};

}  // namespace weft::sim
