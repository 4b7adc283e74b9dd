#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Names of which one may be chosen, or all but some. A value; empty: every name.
struct NameFilter {
  std::vector<std::string> names = {};
  bool all_but = false;  // these are the ones that may not be chosen

  bool limits() const { return !names.empty(); }
  bool allows(std::string_view name) const {
    return names.empty() || (std::find(names.begin(), names.end(), name) != names.end()) != all_but;
  }
  std::string text() const {
    std::string all = all_but ? "all but " : "";
    for (const std::string& name : names) all += (&name == names.data() ? "" : ", ") + name;
    return all;
  }

  bool operator==(const NameFilter&) const = default;
};

}  // namespace weft
