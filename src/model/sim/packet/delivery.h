#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace weft::sim {

// The sequence numbers of one message between two NICs of a network that drops packets: what its sender sends next and
// what its receiver accepts. InfiniBand's reliable connection goes back to the first missing packet (go-back-N: the
// receiver discards what is out of order, and reports one gap once); selective repeat (Mittal et al., Revisiting
// network support for RDMA, SIGCOMM 2018) sends the missing packets alone.
class Delivery {
 public:
  enum class Recovery : std::uint8_t { kGoBackN, kSelective };
  struct Gap {  // of packets that the receiver misses: [from, to)
    std::int64_t from = 0, to = 0;
  };

  // `late`: packets by which one may come later than in order before the receiver reports it; means nothing with
  // go-back-N.
  Delivery(std::int64_t packets, Recovery recovery, std::int64_t late = 0)
      : packets_(packets), recovery_(recovery), late_(late) {
    if (recovery == Recovery::kSelective) got_.resize(static_cast<std::size_t>(packets));
  }

  // The sender's next packet; nothing: it waits for the receiver.
  std::optional<std::int64_t> next() {
    while (!again_.empty()) {
      const std::int64_t packet = again_.front();
      again_.pop_front();
      if (!got(packet)) return packet;
    }
    if (next_ == packets_) return std::nullopt;
    return next_++;
  }

  // A packet reaches the receiver. A gap is what the receiver reports to the sender at that moment (NAK).
  struct Arrival {
    bool accepted = false;
    std::optional<Gap> gap = std::nullopt;
  };
  Arrival arrives(std::int64_t packet) {
    if (recovery_ == Recovery::kSelective) {
      if (got(packet)) return {};
      Arrival arrival{.accepted = true};
      got_[static_cast<std::size_t>(packet)] = true;
      if (const std::int64_t due = packet == packets_ - 1 ? packet : packet - late_; due > expected_) {
        while (expected_ < due && got(expected_)) ++expected_;
        if (expected_ < due) arrival.gap = Gap{expected_, due};
        expected_ = due;
      }
      while (expected_ < packets_ && got(expected_)) ++expected_;
      return arrival;
    }
    if (packet == expected_) {
      ++expected_;
      reported_ = false;
      return {.accepted = true};
    }
    if (packet < expected_ || reported_) return {};
    reported_ = true;
    return {.gap = Gap{expected_, packet}};
  }

  // The report of a gap reaches the sender.
  void reported(const Gap& gap) {
    if (recovery_ == Recovery::kSelective) return send_again(gap);
    next_ = std::min(next_, gap.from);
  }

  // The sender had no acknowledgement for too long.
  void times_out() {
    if (recovery_ == Recovery::kSelective) {
      again_.clear();
      return send_again({0, next_});
    }
    next_ = std::min(next_, expected_);
    reported_ = false;
  }

 private:
  bool got(std::int64_t packet) const { return !got_.empty() && got_[static_cast<std::size_t>(packet)]; }
  void send_again(const Gap& gap) {
    for (std::int64_t packet = gap.from; packet < gap.to; ++packet)
      if (!got(packet)) again_.push_back(packet);
  }

  std::int64_t packets_;
  Recovery recovery_;
  std::int64_t late_;
  std::int64_t next_ = 0;           // the sender's
  std::deque<std::int64_t> again_;  // selective: what the sender sends before that
  std::int64_t expected_ = 0;       // the receiver's: the first one in order; selective: the first not yet reported
  bool reported_ = false;           // go-back-N: the gap before expected_ has been reported
  std::vector<bool> got_;           // selective
};

}  // namespace weft::sim
