#pragma once

#include <fmt/ranges.h>

#include <span>
#include <string>

#include "base/counted.h"
#include "weft/types.h"

// Errors say this of a rank that a decision of the others leaves out, whatever decided.
namespace weft {

// `members`: the ranks that have shrunk the communicator without `self`.
inline std::string left_out_text(Rank self, std::span<const Rank> members) {
  return fmt::format(
      "rank {} was left out, for good: it came later than the others waited, or they shrank without it; {} {} go{} on",
      self, plural(members.size(), "rank"), fmt::join(members, ", "), members.size() == 1 ? "es" : "");
}

// An agreement does not count `self`.
inline std::string not_counted_text(Rank self) {
  return fmt::format(
      "rank {}: the others have agreed without this rank, which came later than they waited; the next agree() is again "
      "of all",
      self);
}

}  // namespace weft
