#include "apps/doctor/clocks.h"

#include <algorithm>
#include <cmath>

namespace weft::doctor {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void Clocks::event(const std::string& name, const std::string& host, double seconds) {
  constexpr std::size_t kMostEvents = 10'000;
  if (host.empty() || (events_.size() >= kMostEvents && !events_.contains(name))) return;
  double& last = events_[name].try_emplace(host, seconds).first->second;
  last = std::max(last, seconds);
}

std::map<std::string, double> Clocks::ahead() const {
  std::map<std::string, std::vector<double>> differences;
  for (const auto& [name, hosts] : events_) {
    if (hosts.size() < 2) continue;
    std::vector<double> times;
    for (const auto& [host, time] : hosts) times.push_back(time);
    const double middle = median(times);
    for (const auto& [host, time] : hosts) differences[host].push_back(time - middle);
  }
  std::map<std::string, double> ahead;
  for (const auto& [host, values] : differences)
    if (const double offset = median(values); std::abs(offset) >= kLeast) ahead[host] = offset;
  return ahead;
}

}  // namespace weft::doctor
