#pragma once

#include <atomic>
#include <cstdint>

#include "recorder/ticks.h"

// The record of one rank in one communicator, as it lies in shared memory:
//
//   Header | Entry x entries | room that it may still grow into
//
// Only the rank writes; readers in other processes may look at any time. All integers are native.
namespace weft::recorder {

inline constexpr std::uint64_t kMagic = 0x63657266'65770002;  // changes with the format
inline constexpr int kLabels = 128;

enum class State : std::uint32_t { kRunning = 0, kDone, kFailed };

// What operations of one kind have in common. Texts end with 0.
struct Label {
  char collective[20], type[12], algorithm[32], protocol[12];
  std::int32_t channels, root;  // root -1: none
};

// Operation n is in entry n % entries. `number` is stored last, and 0 while the rest changes.
struct alignas(64) Entry {
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> started, finished;  // ticks; finished: 0 while it runs
  std::atomic<std::uint64_t> count;              // elements; of an exchange: transfers
  std::atomic<std::uint32_t> label;
  std::atomic<State> state;
};
static_assert(sizeof(Entry) == 64);

// Whom the rank waits for; renewed every some 20 ms while it waits, so old if it does not wait any more.
struct alignas(64) Waiting {
  std::atomic<std::int32_t> peer;  // 1 + the rank; 0: none
  std::atomic<std::int32_t> strand;
  std::atomic<std::int64_t> step, steps;   // of the strand that waits
  std::atomic<std::uint64_t> since, said;  // ticks
};

struct Header {
  std::uint64_t magic;
  std::uint64_t process_started;  // in the kernel's clock ticks after boot: tells processes of one number apart
  std::int32_t pid, rank, ranks;
  std::atomic<std::int32_t> entries;  // doubled before they are used a second time, while there is room
  Anchor anchor;
  char job[64], group[64], transport[16];
  std::atomic<std::int32_t> labels;
  alignas(64) std::atomic<std::uint64_t> begun;  // operations so far: the number of the last
  Waiting waiting;
  Label label[kLabels];
};

}  // namespace weft::recorder
