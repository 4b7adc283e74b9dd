#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/pattern.h"
#include "base/result.h"

namespace weft::doctor {

// kConfig: worth knowing, neither fault nor cost. kNote: no finding, but what guards of others ask for.
enum class Role : std::uint8_t { kRoot, kPerf, kCascade, kConfirm, kTeardown, kConfig, kNote };
std::string_view name(Role role);

// One kind of finding.
struct Rule {
  std::string id, finding;
  Role role = Role::kRoot;
  int strength = 0;  // 3: names the cause, 2: names what fails, 1: may be an effect of another, 0: never a root
  std::vector<std::string> words;  // one of them must be in the line, else the pattern is not tried
  Pattern pattern;
  std::optional<Pattern> unless;
  std::string versions, remedy, verify, refuted;
  std::string fault;  // a change in the words of causes.tsv; empty: cannot be replayed
  // Rules of which facts have to be there, and of which none may be, anywhere in the evidence; else it is no finding.
  std::vector<std::string> needs, without;
  bool gives_way = false;                 // to any other root that finds the line
  std::vector<std::string> confirmed_by;  // rules whose facts make it certain; empty: any of another source

  bool matches(std::string_view line) const;  // of a line that has one of the words
  bool finds(std::string_view line) const;
};

// A table as data/doctor/rules.tsv. Errors (bad input): names file, line and column.
Result<std::vector<Rule>> parse_rules(std::string_view file, std::string_view text);
// The shipped ones.
Result<std::vector<Rule>> shipped_rules();

}  // namespace weft::doctor
