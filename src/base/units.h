#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "weft/types.h"

namespace weft {

// A count of bytes: 64 bit, signed so that differences are representable.
using Bytes = std::int64_t;

// Virtual or measured time with a resolution of one picosecond; ±106 days.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration picoseconds(std::int64_t v) { return Duration(v); }
  static constexpr Duration nanoseconds(double v) { return from(v * 1e3); }
  static constexpr Duration microseconds(double v) { return from(v * 1e6); }
  static constexpr Duration seconds(double v) { return from(v * 1e12); }
  static constexpr Duration max() { return Duration(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t ps() const { return ps_; }
  constexpr double ns() const { return static_cast<double>(ps_) * 1e-3; }
  constexpr double us() const { return static_cast<double>(ps_) * 1e-6; }
  constexpr double s() const { return static_cast<double>(ps_) * 1e-12; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration o) const {
    std::int64_t sum = 0;
    return Duration(__builtin_add_overflow(ps_, o.ps_, &sum) ? std::numeric_limits<std::int64_t>::max() : sum);
  }
  constexpr Duration operator-(Duration o) const { return Duration(ps_ - o.ps_); }
  constexpr Duration& operator+=(Duration o) { return *this = *this + o; }
  constexpr Duration operator*(double k) const { return from(static_cast<double>(ps_) * k); }
  constexpr double operator/(Duration o) const { return static_cast<double>(ps_) / static_cast<double>(o.ps_); }

 private:
  explicit constexpr Duration(std::int64_t v) : ps_(v) {}
  // Saturates: an absurd size over a slow link must not wrap into the past.
  static constexpr Duration from(double v) {
    constexpr double kLimit = 9.2e18;
    return Duration(v >= kLimit ? std::numeric_limits<std::int64_t>::max()
                                : static_cast<std::int64_t>(v + (v < 0 ? -0.5 : 0.5)));
  }
  std::int64_t ps_ = 0;
};

// A data rate in one direction.
class BytesPerSecond {
 public:
  constexpr BytesPerSecond() = default;
  explicit constexpr BytesPerSecond(double bytes_per_second) : v_(bytes_per_second) {}
  static constexpr BytesPerSecond gigabytes(double gb) { return BytesPerSecond(gb * 1e9); }  // GB = 10^9 bytes
  static constexpr BytesPerSecond gigabits(double gbit) { return BytesPerSecond(gbit * 1e9 / 8); }

  constexpr double value() const { return v_; }
  constexpr double gb() const { return v_ * 1e-9; }

  constexpr auto operator<=>(const BytesPerSecond&) const = default;
  constexpr BytesPerSecond operator*(double k) const { return BytesPerSecond(v_ * k); }
  constexpr BytesPerSecond operator/(double k) const { return BytesPerSecond(v_ / k); }
  constexpr BytesPerSecond operator+(BytesPerSecond o) const { return BytesPerSecond(v_ + o.v_); }
  constexpr double operator/(BytesPerSecond o) const { return v_ / o.v_; }

 private:
  double v_ = 0;
};

// Time to move `bytes` at `rate`; a rate of zero never ends (Duration::max()).
constexpr Duration operator/(Bytes bytes, BytesPerSecond rate) {
  return rate.value() <= 0 ? Duration::max() : Duration::seconds(static_cast<double>(bytes) / rate.value());
}

}  // namespace weft
