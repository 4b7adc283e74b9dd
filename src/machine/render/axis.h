#pragma once

#include <cmath>
#include <initializer_list>

namespace weft::topology {

// An axis of a plot, linear or logarithmic, in pixels from the top left.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;

  double operator()(double value) const {
    const double part = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + part * (to - from);
  }
};

// 1, 2 or 5 times a power of ten, so that there are about `count` steps.
inline double round_step(double range, int count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double by : {1.0, 2.0, 5.0})
    if (rough <= by * power) return by * power;
  return 10 * power;
}

}  // namespace weft::topology
