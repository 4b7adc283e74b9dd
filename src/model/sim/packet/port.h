#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"

namespace weft::sim {

// One direction of a link, from the output that sends to the input queue that receives. Per service class: who waits
// for it, and how much room the receiver has left. The clock of a link's far end is behind by the link's latency
// (carrier.h), so a message back takes a whole round trip here. Sizes in bytes on the link.
class Port {
 public:
  using Queue = std::int32_t;
  struct Rules {
    double rate = 0;      // bytes per second
    Duration round_trip;  // of the link
    double room = 0;      // at the receiver, of every class
    bool credits = true;  // else the receiver takes what comes, and drops what has no room
    bool pauses = false;  // … but says stop above `stop_at` and go on below `resume_at`, unless a switch's shared
                          // buffer says when
    double stop_at = 0, resume_at = 0;
    bool marks = false;  // its sender is a switch that marks packets which queue for it
  };

  // One class per weight.
  Port(const Rules& rules, const std::vector<double>& weights) : rules_(rules) {
    for (const double weight : weights) lines_.push_back({.weight = weight, .waiting = {}, .room = rules.room});
  }

  const Rules& rules() const { return rules_; }
  void set_rate(double rate) { rules_.rate = rate; }

  // A queue's head wants to be sent here.
  void add(std::size_t service, Queue queue) {
    Line& line = lines_[service];
    if (line.waiting.empty()) line.start = std::max(line.start, now_serving_);
    line.waiting.push_back(queue);
  }
  bool wanted() const {
    for (const Line& line : lines_)
      if (!line.waiting.empty()) return true;
    return false;
  }

  // Which queue sends next: of the class whose start tag is least (start-time fair queueing: Goyal, Vin and Cheng,
  // 1996), the one that has waited longest (round robin, because a queue waits anew for each packet). None: nobody
  // waits, or there is no room. `size_of` returns the size of a queue's head.
  struct Turn {
    std::size_t service;
    Queue queue;
  };
  template <class SizeOf>
  std::optional<Turn> take_turn(Duration now, SizeOf&& size_of) {
    std::optional<Turn> best;
    for (std::size_t s = 0; s < lines_.size(); ++s) {
      Line& line = lines_[s];
      regain(line, now);
      if (line.waiting.empty() || line.paused) continue;
      if (rules_.credits && line.room < size_of(line.waiting.front()) && line.room < rules_.room) continue;
      if (!best || line.start < lines_[best->service].start) best = Turn{s, line.waiting.front()};
    }
    if (!best) return best;
    Line& line = lines_[best->service];
    now_serving_ = line.start;
    line.start += size_of(best->queue) / line.weight;
    line.waiting.pop_front();
    return best;
  }
  // When room comes back that is on its way; nothing: none is.
  std::optional<Duration> next_room() const {
    std::optional<Duration> earliest;
    for (const Line& line : lines_)
      if (!line.waiting.empty() && !line.returning.empty() && (!earliest || line.returning.front().first < *earliest))
        earliest = line.returning.front().first;
    return earliest;
  }

  // A packet of that size sets out. False: the receiver has no room and drops it. (Empty room takes any packet.)
  bool fill(std::size_t service, double size) {
    Line& line = lines_[service];
    if (!rules_.credits && line.room < size && line.room < rules_.room) return false;
    line.room -= size;
    return true;
  }
  // It has left the receiver's input queue.
  void empty(std::size_t service, double size, Duration now) {
    Line& line = lines_[service];
    if (rules_.credits)
      line.returning.emplace_back(now + rules_.round_trip, size);
    else
      line.room += size;
  }
  // Does the receiver now say stop (true) or go on (false) to the class? The sender reads it a round trip later:
  // set_paused().
  std::optional<bool> says(std::size_t service, double stop_at, double resume_at) {
    constexpr double kNothing = 1e-3;  // sums of packets' sizes that come and go are not exact
    Line& line = lines_[service];
    const double held = rules_.room - line.room;
    if (!rules_.pauses || (line.stop ? held > std::max(resume_at, kNothing) : held <= stop_at)) return std::nullopt;
    return line.stop = !line.stop;
  }
  void set_paused(std::size_t service, bool stop) { lines_[service].paused = stop; }

  double held(std::size_t service) const { return rules_.room - lines_[service].room; }

 private:
  struct Line {
    double weight = 1, start = 0;  // start: what the class has got, per weight
    std::deque<Queue> waiting;
    double room = 0;
    std::deque<std::pair<Duration, double>> returning;  // credits under way, earliest first
    bool stop = false, paused = false;                  // what the receiver sent last; what has arrived at the sender
  };
  static void regain(Line& line, Duration now) {
    for (; !line.returning.empty() && line.returning.front().first <= now; line.returning.pop_front())
      line.room += line.returning.front().second;
  }

  Rules rules_;
  std::vector<Line> lines_;
  double now_serving_ = 0;  // the start tag of what is sent
};

}  // namespace weft::sim
