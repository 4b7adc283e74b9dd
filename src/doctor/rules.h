#pragma once

#include <cstdint>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::doctor {

enum class Role : std::uint8_t { kRoot, kPerf, kCascade, kConfirm, kTeardown };
std::string_view name(Role role);

// One kind of finding.
struct Rule {
  std::string id, finding;
  Role role = Role::kRoot;
  int strength = 0;  // 3: names the cause, 2: names what fails, 1: may be an effect of another, 0: never a root
  std::vector<std::string> words;  // one of them must be in the line, else the pattern is not tried
  std::regex pattern;
  std::regex unless;
  bool has_unless = false;
  std::string versions, remedy, verify, refuted;
  std::string fault;  // as for weft bench --fault; empty: cannot be replayed

  bool finds(const std::string& line) const;
};

// A table as data/doctor/rules.tsv. Errors (bad input): names file, line and column.
Result<std::vector<Rule>> parse_rules(std::string_view file, std::string_view text);
// The shipped ones.
Result<std::vector<Rule>> shipped_rules();

}  // namespace weft::doctor
