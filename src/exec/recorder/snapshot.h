#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/recorder/format.h"

namespace weft::recorder {

// A recorded operation. Times: nanoseconds since 1970.
struct Operation {
  std::uint64_t number = 0, count = 0;
  std::string collective, type, algorithm, protocol;
  int channels = 0;
  Rank root = -1;  // none
  State state = State::kRunning;
  std::int64_t started = 0, finished = 0;  // finished: 0 while it runs
};

// The sum of a rank's ended operations of one kind since its communicator began.
struct Sum {
  std::string collective, type, algorithm, protocol;
  int channels = 0;
  std::uint64_t calls = 0, failed = 0;
  double bytes = 0;    // of messages, as benchmarks count them; 0 where the kind has no size
  double seconds = 0;  // within these calls
};

enum class Process { kRunning, kStopped, kEnded };

struct Wait {
  Rank peer = -1;
  int strand = 0;
  std::int64_t step = 0, steps = 0;
  std::int64_t since = 0;
};

// A message with a tag that a rank waits for.
struct TaggedWait {
  bool sends = false;
  Rank peer = -1;           // -1: any
  std::int32_t tag = -1;    // -1: any
  std::uint64_t bytes = 0;  // of the rank's buffer
  std::int64_t since = 0;

  std::string text() const;  // "a receive of 40 B from rank 1 with tag 3"
};

// The contents of one rank's record at one moment. A value.
struct Snapshot {
  std::string job, group, transport;
  Rank rank = 0, ranks = 1;
  int pid = 0;
  Process process = Process::kRunning;
  std::string program;
  std::int64_t opened = 0, taken = 0;     // when its communicator began, and when this was read
  std::vector<Operation> operations;      // oldest first
  std::optional<Wait> wait;               // only what the rank still says
  std::vector<Sum> sums;                  // a kind each, in the order of their first calls
  std::uint64_t sends = 0, receives = 0;  // with tags, begun
  std::optional<TaggedWait> tagged;

  const Operation* last() const { return operations.empty() ? nullptr : &operations.back(); }
  bool busy() const { return last() != nullptr && last()->state == State::kRunning; }
  bool waits() const { return wait || tagged; }
  // The rank that this one waits for. -1: none, or any.
  Rank awaited() const { return wait ? wait->peer : tagged ? tagged->peer : -1; }
  // "all_reduce #12", "a receive of 40 B from rank 1 with tag 3"; empty: the rank is in no call.
  std::string doing() const;
};

// The label with this number; one that says "(other)" if it found no place.
const Label& label_of(const Header& header, std::uint32_t label);

// Reads at most the last `operations`.
Snapshot read(const Header& header, std::size_t operations);

// What the system says of a process: its state, and when it was started (0: there is none).
struct ProcessFacts {
  Process state = Process::kEnded;
  std::uint64_t started = 0;
  std::string program;
};
ProcessFacts facts_of(int pid);

// The records in a folder, by job, group and rank; those of processes that have ended are removed from it. Files that
// are no records are left alone.
std::vector<Snapshot> read_folder(const std::string& folder, std::size_t operations);
// The records of one process, each with its last operation. Unlike those above it finds those of a process that has
// ended, as long as nobody has removed them.
std::vector<Snapshot> read_process(const std::string& folder, int pid);
// Only removes.
void sweep(const std::string& folder);

}  // namespace weft::recorder
