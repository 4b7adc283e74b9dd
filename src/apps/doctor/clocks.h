#pragma once

#include <map>
#include <string>
#include <vector>

namespace weft::doctor {

// Clocks of hosts, compared at events that all hosts see at one time, as the end of a communicator's start.
class Clocks {
 public:
  void event(const std::string& name, const std::string& host, double seconds);
  // By how many seconds a host's clock is ahead of the median of hosts; hosts that differ by less than kLeast have
  // none.
  std::map<std::string, double> ahead() const;
  static constexpr double kLeast = 2;  // seconds; log lines are printed late by less

 private:
  std::map<std::string, std::map<std::string, double>> events_;  // by name, by host: the last time
};

}  // namespace weft::doctor
