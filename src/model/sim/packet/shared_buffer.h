#pragma once

#include <algorithm>

namespace weft::sim {

// The memory of a switch that all its ports share, in bytes. A queue may grow to `alpha` times what is free (dynamic
// thresholds: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998), so that n queues that all want more
// get alpha / (1 + n alpha) of it each, and the rest stays free for others.
class SharedBuffer {
 public:
  // `headroom`: beside it, for what is under way when ports pause.
  SharedBuffer(double size, double headroom, double alpha) : size_(size), headroom_(headroom), alpha_(alpha) {}

  double threshold() const { return alpha_ * std::max(0.0, size_ - used_); }
  // Is there room for a packet of a queue of that length? An empty buffer takes any packet.
  bool takes(double queue, double packet) const {
    return used_ == 0 || (queue + packet <= threshold() && used_ + packet <= size_);
  }
  // Is there, where ports pause?
  bool takes(double packet) const { return used_ == 0 || used_ + packet <= size_ + headroom_; }
  void add(double packet) { used_ += packet; }
  // Sums of packets' sizes that come and go are not exact.
  void remove(double packet) { used_ = used_ - packet < kNothing ? 0 : used_ - packet; }
  double used() const { return used_; }
  double most() const { return size_ + headroom_; }

 private:
  static constexpr double kNothing = 1e-3;
  double size_, headroom_, alpha_, used_ = 0;
};

}  // namespace weft::sim
