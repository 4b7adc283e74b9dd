#pragma once

#include <string>
#include <vector>

#include "plan/cost/machine_view.h"
#include "plan/schedule/schedule.h"

namespace weft::cost {

// A message's use of one direction of a link: vectors leave in consecutive slots, [first, first + slots).
struct Reservation {
  std::int64_t direction = 0;  // 2 * link, + 1 from b to a
  std::int64_t first = 0, slots = 0;
  int message = 0;
};

// A message of the schedule, between two steps.
struct TimedMessage {
  Rank from = 0, to = 0;
  schedule::ChunkId chunk = -1;
  int sends = 0, receives = 0;       // steps, numbered over all strands
  std::int64_t ready = 0;            // the slot from which the sender has its data
  std::int64_t left = 0, there = 0;  // the first slot of its first link; the slot after its last vector's arrival
};

// When every vector crosses every link, fixed before anything runs: what Groq's compiler gives links on which nothing
// arbitrates and nothing queues (Abts et al., ISCA 2022). A value.
struct Timetable {
  Duration slot;  // what a vector takes of the slowest link
  Bytes vector = 0;
  std::int64_t slots = 0;  // until the last arrival
  std::vector<TimedMessage> messages;
  std::vector<Reservation> reservations;  // by direction, then by first slot
  double busiest = 0;                     // the part of all slots that the busiest direction of a link is used

  Duration time() const { return slot * static_cast<double>(slots); }
};

// Gives every message, in the order of its steps, the first slots in which all links of its way are free one after the
// other, a link's latency apart. A step begins when the step before it and all its messages are done; what it computes
// takes no time (the chip's units work at the links' rate).
// Errors (bad input): a schedule that gets stuck, or that loads and stores peers' memory; ranks that are not connected.
Result<Timetable> compile_timetable(const MachineView& machine, const schedule::Schedule& schedule, Bytes chunk,
                                    Bytes vector = 320);

// Whether no two vectors are on a link in one slot, every link of a message follows the one before by its latency, and
// nothing is sent before its sender has it. Returns the first violation, by link, slot and messages; empty: proved.
std::string violation(const MachineView& machine, const Timetable& table);

}  // namespace weft::cost
