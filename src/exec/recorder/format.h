#pragma once

#include <atomic>
#include <cstdint>

#include "exec/recorder/ticks.h"

// Records as they lie in shared memory: files of a process, each a FileHeader, and from kFirstPlace on places of equal
// size. A place is empty, which is zero, or the record of one rank in one communicator:
//
//   Header | Entry x entries | room for more of them | Kind x labels, at labels_at | room for more
//
// `used` says whether there are pages to be read, and of how many entries and labels. Only the rank writes;
// readers in other processes may look at any time, and look at the magic number once more afterwards: a place whose
// communicator has ended is cleared. All integers are native.
namespace weft::recorder {

inline constexpr std::uint64_t kMagic = 0x63657266'65770006;  // changes with the format
inline constexpr int kLabels = 128;                           // at most

enum class State : std::uint32_t { kRunning = 0, kDone, kFailed };

// What operations of one kind have in common. Texts end with 0.
struct Label {
  char collective[20], type[12], algorithm[32], protocol[12];
  std::int32_t channels, root;  // root -1: none
  std::int32_t unit = 0;        // bytes of the message per element of a call's count; 0: not known
};

// What operations with one label came to, once they have ended. Only grows.
struct Tally {
  std::atomic<std::uint64_t> calls, failed, elements, ticks;
};

struct Kind {
  Label label;
  Tally tally;
};
static_assert(sizeof(Label) == 88);  // without padding: labels are compared as bytes

// Operation n is in entry n % entries. `number` is stored last, and 0 while the rest changes.
struct alignas(64) Entry {
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> started, finished;  // ticks; started: 0 while it has not waited; finished: 0 while it runs
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

// Messages with tags: how many were begun, and the one that the rank waits for.
struct alignas(64) Tagged {
  enum : std::uint32_t { kNone = 0, kSend, kReceive };
  std::atomic<std::uint64_t> sends, receives;
  std::atomic<std::uint32_t> waits;         // for which; stored last
  std::atomic<std::int32_t> peer, tag;      // -1: any
  std::atomic<std::uint64_t> bytes, since;  // of the caller's buffer; ticks
};

inline constexpr std::size_t kFirstPlace = 4096;

struct FileHeader {
  std::atomic<std::uint64_t> magic;  // stored last
  std::uint64_t process_started;     // in the kernel's clock ticks after boot: distinguishes processes of one number
  std::uint64_t place_bytes, labels_at;
  std::int32_t pid, places;
  std::atomic<std::uint64_t> used;  // a bit per place
};
static_assert(sizeof(FileHeader) <= kFirstPlace);

struct Header {
  std::atomic<std::uint64_t> magic;  // stored last; 0: none
  std::int32_t pid, rank, ranks;
  std::atomic<std::int32_t> entries;  // doubled before they are used a second time, while there is room
  Anchor anchor;
  char job[64], group[64], transport[16];
  std::uint64_t labels_at;                       // from the header
  std::atomic<std::int32_t> labels;              // what has none of them has a label that found no place
  alignas(64) std::atomic<std::uint64_t> begun;  // operations so far: the number of the last
  Waiting waiting;
  Tagged tagged;
};
static_assert(sizeof(Header) % sizeof(Entry) == 0);

}  // namespace weft::recorder
