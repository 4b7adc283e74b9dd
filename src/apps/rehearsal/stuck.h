#pragma once

#include <string>
#include <vector>

#include "apps/rehearsal/meeting.h"

namespace weft::rehearsal {

// A meeting that a rank waits for, at a line.
struct Blocked {
  int meeting = -1;
  std::string line;
};

// A rank where nothing goes on.
struct Standstill {
  Rank rank = -1;
  bool ended = false;  // its program is done
  std::vector<Blocked> waits;
};

// Findings of meetings that never end: circles of waits first, then calls that a member never makes and messages
// without their other end. Groups and ranks with a finding already are left out: what follows from it is no news.
void find_stuck(const Job& job, const Meetings& meetings, const std::vector<Standstill>& ranks, Outcome& outcome);

}  // namespace weft::rehearsal
