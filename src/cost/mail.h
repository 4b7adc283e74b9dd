#pragma once

#include <cmath>
#include <cstdint>
#include <unordered_map>

#include "schedule/queue.h"

namespace weft::cost {

// When the first and the last slice of something are there, in seconds; of a message, from when on its receiver could
// have had a hand in it: its sender's beginning, a latency later.
struct Stream {
  double first, last, begun = 0;
};

// What is on its way in a walk, first in, first out on each connection. Parts that a schedule puts into one message
// travel together: they are there when their message is, and cost one message.
class Mail {
 public:
  // Messages hold `most` bytes: larger ones go as several.
  explicit Mail(double most) : most_(most) {}
  void clear() { connections_.clear(); }

  // How many messages one more part would fill, or close where it is the last one.
  double filled_by(std::uint64_t connection, double bytes, bool last) {
    return with(connections_[connection].filling, bytes, last).messages - connections_[connection].filling.messages;
  }
  void put(std::uint64_t connection, Stream part, double bytes, bool last) {
    Connection& c = connections_[connection];
    const Sent before = c.filling;
    c.filling = with(before, bytes, last);
    c.filling.times.last = part.last;
    if (before.parts == 0) c.filling.times.begun = part.begun;
    // What fills a message together with others waits for all of it.
    const bool alone = before.parts == 0 && (last || bytes >= most_);
    c.filling.times.first = before.messages > 0 ? before.times.first : alone ? part.first : part.last;
    if (!last) return;
    c.sent.push_back(c.filling);
    c.filling = {};
  }

  bool empty(std::uint64_t connection) { return connections_[connection].sent.empty(); }
  // When the next part of the oldest message is there. Requires: not empty.
  Stream take(std::uint64_t connection, bool last) {
    schedule::Queue<Sent>& sent = connections_[connection].sent;
    Sent& m = sent.front();
    const auto at = [&](int parts) {
      return std::lerp(m.times.first, m.times.last, static_cast<double>(parts) / m.parts);
    };
    const Stream part{at(m.taken), at(m.taken + 1), m.times.begun};
    ++m.taken;
    if (last) sent.pop_front();
    return part;
  }

 private:
  struct Sent {
    double bytes = 0, messages = 0;
    int parts = 0, taken = 0;
    Stream times{0, 0};
  };
  struct Connection {
    Sent filling;
    schedule::Queue<Sent> sent;
  };

  Sent with(Sent message, double bytes, bool last) const {
    message.bytes += bytes;
    ++message.parts;
    const double full = message.bytes / most_;
    message.messages = last ? std::fmax(1, std::ceil(full)) : std::floor(full);
    return message;
  }

  double most_;
  std::unordered_map<std::uint64_t, Connection> connections_;
};

}  // namespace weft::cost
