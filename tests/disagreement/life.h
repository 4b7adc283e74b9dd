#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/disagreement/case.h"

namespace weft::disagreement {

// How a rank of a case fared.
struct Life {
  std::string wrong = {};  // empty, or what must never happen: a wrong result with ok, a byte written beside an output
  Status ended = {};
  bool refused = false;  // a call was refused as bad input
  bool gone = false;     // it was killed, or exited, as its fate says
  bool left = false;     // it dropped the communicator, as its fate says

  // Of a recovery.
  std::optional<Agreement> agreed = {};
  std::vector<Rank> members = {};  // of the new communicator, by their ranks in the old one; empty: none was made
  Status recovered = {};

  // One text and back, for a process that reports to its parent.
  std::string text() const;
  static Life parse(std::string_view text);
};

// Makes one call with inputs that follow from its salt. `wrong`: see Life.
Status make(const Call& c, Communicator& comm, std::string& wrong);

// What a rank of a case does from its first call to finalize(), or to the end of its recovery.
Life context(const Case& c, Communicator& comm);

// Empty, or why these answers are not allowed; fills in what else is known of the case.
std::string judge(const Case& c, const std::vector<Life>& lives, Verdict& v);

}  // namespace weft::disagreement
