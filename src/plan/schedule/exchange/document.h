#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/schedule/verify/verify.h"

namespace weft::schedule {

// Where a step stands in the file it was read from.
struct Origin {
  std::int32_t line = 0, step = 0;
};

// A schedule as files carry it: with a name, and how it may be called.
struct Document {
  std::string name;
  Schedule schedule;
  bool out_of_place = true, in_place = false;  // input and output apart; the same memory
  int slots = 2;                               // messages that a connection holds
  std::vector<std::vector<Origin>> origins;    // [strand][step]; empty where the file does not count so
};

// Verifies it in every way it may be called. The proof is that of the first way that fails, else of the last.
// Requires: check(document.schedule), within the limits below, as everything that was read.
Proof prove(const Document& document);

// "file.xml:12: gpu 3 tb 1 step 4: race: …"; without the place where the file has none.
std::string locate(const Document& document, std::string_view file, const Finding& finding);

// What is read at most: files that others wrote may say anything, and nothing here takes more than seconds or a GiB.
namespace limits {
inline constexpr std::size_t kBytes = std::size_t{16} << 20;  // of the text
inline constexpr std::int64_t kElements = 1 << 20;            // XML elements or JSON values
inline constexpr std::int64_t kRanks = 1024;
inline constexpr std::int64_t kLanes = 127;                     // an Operand names its lane in 8 bits
inline constexpr std::int64_t kMoves = 1 << 20;                 // steps of all ranks
inline constexpr std::int64_t kCells = 1 << 21;                 // chunks and slots of all ranks' buffers
inline constexpr std::int64_t kConnections = 1 << 21;           // strands x ranks
inline constexpr std::int64_t kClocks = std::int64_t{1} << 26;  // (strands + steps) x strands
}  // namespace limits

// Errors (bad input): which of the limits a schedule of this size passes. `chunks`: of the whole message.
Status check_size(std::int64_t ranks, std::int64_t lanes, std::int64_t chunks, std::int64_t scratch,
                  std::int64_t steps);

}  // namespace weft::schedule
