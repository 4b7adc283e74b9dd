#pragma once

#include <cmath>
#include <cstdint>

#include "plan/cost/queues.h"

namespace weft::cost {

// When the first and the last slice of something are there, in seconds; of a message, from when on its receiver could
// have had a hand in it: its sender's beginning, a latency later.
struct Stream {
  double first, last, begun = 0;
};

// What is on its way in a walk, first in, first out on each connection: parts, all equally large. Those that a schedule
// puts into one message travel together: they are there when their message is, and cost one message.
class InFlight {
 public:
  // Messages on connections 0 to `connections` - 1. They hold `most` bytes: larger ones go as several.
  InFlight(std::size_t connections, double part_bytes, double most)
      : part_(part_bytes), most_(most), alone_(messages_of(1, true)), sent_(connections) {}

  // How many messages one more part would fill, or close where it is the last one.
  double filled_by(std::uint32_t connection, bool last) {
    if (!is_open(connection)) return last ? alone_ : messages_of(1, false);
    const Sent& message = sent_.back(connection);
    return messages_of(message.parts + 1, last) - message.messages;
  }
  void put(std::uint32_t connection, const Stream& part, bool last) {
    if (!is_open(connection)) {
      const bool alone = last || part_ >= most_;  // what fills a message together with others waits for all of it
      sent_.push(connection, {.times = {alone ? part.first : part.last, part.last, part.begun},
                              .messages = last ? alone_ : messages_of(1, false),
                              .parts = 1,
                              .whole = last});
      return;
    }
    Sent& message = sent_.back(connection);
    if (message.messages == 0) message.times.first = part.last;
    message.times.last = part.last;
    message.messages = messages_of(++message.parts, last);
    message.whole = last;
    if (last) message.step = (message.times.last - message.times.first) / message.parts;
  }

  bool empty(std::uint32_t connection) { return sent_.empty(connection) || !sent_.front(connection).whole; }
  // When the next part of the oldest message is there. Requires: not empty.
  Stream take(std::uint32_t connection, bool last) {
    Sent& m = sent_.front(connection);
    Stream part = m.times;
    if (m.parts > 1) {
      part.first = m.times.first + m.taken * m.step;
      part.last = m.times.first + ++m.taken * m.step;
    }
    if (last) sent_.pop(connection);
    return part;
  }

 private:
  struct Sent {
    Stream times;
    double messages = 0;  // filled so far, or all
    int parts = 0, taken = 0;
    double step = 0;  // from part to part, where there are several
    bool whole = false;
  };

  // Does the next part go into a message that has some?
  bool is_open(std::uint32_t connection) { return !sent_.empty(connection) && !sent_.back(connection).whole; }
  double messages_of(int parts, bool all) const {
    const double full = parts * part_ / most_;
    return all ? std::fmax(1, std::ceil(full)) : std::floor(full);
  }

  double part_, most_;
  double alone_;  // messages of one part
  Queues<Sent> sent_;
};

}  // namespace weft::cost
