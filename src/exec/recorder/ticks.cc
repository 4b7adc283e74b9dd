#include "exec/recorder/ticks.h"

namespace weft::recorder {
namespace {

template <class Clock>
std::int64_t nanoseconds() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

}  // namespace

Anchor Anchor::now() {
  return {recorder::ticks(), nanoseconds<std::chrono::steady_clock>(), nanoseconds<std::chrono::system_clock>()};
}

Timescale::Timescale(const Anchor& then, const Anchor& now) : now_(now) {
  const auto passed = static_cast<double>(now.ticks - then.ticks);
  per_tick_ = passed > 0 ? static_cast<double>(now.steady - then.steady) / passed : 1;
}

std::int64_t Timescale::real(std::uint64_t at) const {
  const auto ago = static_cast<double>(static_cast<std::int64_t>(now_.ticks - at)) * per_tick_;
  return now_.real - static_cast<std::int64_t>(ago);
}

}  // namespace weft::recorder
