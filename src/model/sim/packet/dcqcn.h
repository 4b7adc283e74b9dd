#pragma once

#include <algorithm>
#include <cmath>

#include "model/sim/packet/rules.h"

namespace weft::sim {

// How fast one flow may send: DCQCN's reaction point (Zhu et al., SIGCOMM 2015, section 3). A notice of congestion cuts
// the rate by half of alpha, the estimate of how congested the way is. Then, at every expiry of a timer and after every
// CongestionRules::byte_counter bytes, the rate goes halfway back to what it was (fast recovery), later also that
// target grows. Rates in bytes per second.
class Dcqcn {
 public:
  Dcqcn(const CongestionRules& rules, double line_rate)
      : rules_(&rules), line_(line_rate), rate_(line_rate), target_(line_rate) {}
  Dcqcn(CongestionRules&&, double) = delete;  // it keeps only their address

  double rate() const { return rate_; }
  bool throttled() const { return rate_ < line_; }

  void notice(Duration now) {
    decay(now);
    decayed_ = now;
    alpha_ = (1 - rules_->gain) * alpha_ + rules_->gain;
    if (rules_->clamps || timer_steps_ + byte_steps_ > 0 || !throttled()) target_ = rate_;
    rate_ = std::max(rate_ * (1 - alpha_ / 2), rules_->increase * line_);
    timer_steps_ = byte_steps_ = 0;
    bytes_ = 0;
  }
  // A timer's interval without a notice.
  void timer_expired(Duration now) {
    decay(now);
    ++timer_steps_;
    increase();
  }
  void sent(double bytes) {
    bytes_ += bytes;
    if (!throttled() || bytes_ < static_cast<double>(rules_->byte_counter)) return;
    bytes_ = 0;
    ++byte_steps_;
    increase();
  }

 private:
  // Alpha decays once per interval without a notice.
  void decay(Duration now) {
    const double intervals = std::floor((now - decayed_) / rules_->alpha_timer);
    if (intervals < 1) return;
    alpha_ *= std::pow(1 - rules_->gain, intervals);
    decayed_ += rules_->alpha_timer * intervals;
  }
  void increase() {
    constexpr double kAll = 0.999;  // of the line's rate counts as all of it
    const double step = rules_->increase * line_;
    // Hyper increase: both counters are past fast recovery.
    if (const int both = std::min(timer_steps_, byte_steps_); both > rules_->fast_steps)
      target_ += step * (both - rules_->fast_steps);
    else if (std::max(timer_steps_, byte_steps_) > rules_->fast_steps)
      target_ += step;
    target_ = std::min(target_, line_);
    rate_ = (rate_ + target_) / 2;
    if (rate_ > kAll * line_) rate_ = line_;
  }

  const CongestionRules* rules_;
  double line_, rate_, target_;
  double alpha_ = 1, bytes_ = 0;
  Duration decayed_;  // until then alpha has
  int timer_steps_ = 0, byte_steps_ = 0;
};

}  // namespace weft::sim
