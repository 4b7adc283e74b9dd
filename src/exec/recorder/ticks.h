#pragma once

#include <chrono>
#include <cstdint>

namespace weft::recorder {

// The cheapest clock there is: the processor's counter, which runs at one rate on all cores, else the steady clock.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// The same instant on three clocks. Nanoseconds; `real` since 1970.
struct Anchor {
  std::uint64_t ticks = 0;
  std::int64_t steady = 0, real = 0;

  static Anchor now();
};

// Converts ticks to nanoseconds since 1970 by two anchors of one machine, the earlier first.
class Timescale {
 public:
  Timescale(const Anchor& then, const Anchor& now);
  std::int64_t real(std::uint64_t at) const;
  double seconds(std::uint64_t ticks) const { return static_cast<double>(ticks) * per_tick_ * 1e-9; }

 private:
  Anchor now_;
  double per_tick_;
};

}  // namespace weft::recorder
