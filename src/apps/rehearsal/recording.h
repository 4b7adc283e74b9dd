#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weft/types.h"

namespace weft::rehearsal {

// A collective or message as one rank called it.
struct Call {
  std::string op;          // "all_reduce", …, "send", "recv", "barrier", "all_gather_object"
  std::string type;        // of the elements; empty: no tensor
  std::string reduce;      // "sum"; empty: nothing is reduced
  int group = 0;           // of Job::groups
  std::int64_t count = 0;  // elements of this rank: the input, of reduce_scatter and scatter the output
  Bytes bytes = 0;         // of the larger side
  Rank root = -1, peer = -1;
  bool host = false;       // of memory of the CPU: the host waits for it, and messages of two ranks keep no order
  std::int64_t batch = 0;  // calls of one batch progress together; 0: alone
  std::vector<std::int64_t> sends, receives;  // elements to and from each member of an uneven all_to_all

  bool message() const { return op == "send" || op == "recv"; }
};

struct Kernel {
  std::string op, kind,
      type;  // kind: "gemm", "attention", "attention_backward", "flops", "memory", "fixed" (of an unknown card), "idle"
  double seconds = 0;  // measured, on Recording::card; 0: not
  double flops = 0, bytes = 0;
  double m = 0, n = 0, k = 0, groups = 1;
};

// An action of a rank's host; a recording has them in the host's order.
struct Event {
  enum class Kind { kCall, kWait, kKernel, kRecord, kWaitEvent, kSynchronize, kMemory, kStep };
  Kind kind{};
  std::int64_t number = 0;  // of the call, the wait's call, the event
  int stream = 0;
  bool host = false;                  // the host itself waits
  int index = -1;                     // of Recording::calls or kernels
  Bytes allocated = 0, reserved = 0;  // peaks so far
  std::string line;                   // of the user's program, "train.py:12"
};

struct Note {
  std::string text, line;
};

// What lay in a rank's memory when it was most: of one category and module.
struct Held {
  std::string category, module;
  Bytes bytes = 0;
};

// One rehearsed rank.
struct Recording {
  std::string file, script;
  std::string card;  // of the catalogue, on which its kernels were measured; empty: they were not
  Rank rank = 0, world = 0;
  std::map<int, int> groups;  // of Job::groups, by the number in the file
  std::vector<int> made;      // groups of Job::groups in the order in which the script made them
  std::vector<Call> calls;
  std::vector<Kernel> kernels;
  std::set<std::int64_t> numbers;  // of calls
  std::vector<Event> events;
  std::vector<Note> notes;
  std::vector<Held> held;
  std::string error, error_line;  // why the script ended early
  bool ended = false;
};

struct Group {
  std::vector<Rank> ranks;
  int occurrence = 0;  // of the groups with these members
  std::string line;    // where the first rank made it
};

// The rehearsed ranks of one job; by rank.
struct Job {
  Rank world = 0;
  std::vector<Recording> ranks;
  std::vector<Group> groups;
  std::string card;  // on which kernels were measured; empty: on none

  const Recording* of(Rank rank) const;
};

// Adds one file of weft.rehearsal/1, or a trace of torch.profiler, which becomes one. Errors (bad input): names file
// and line; another number of ranks than the files before; a rank twice.
Status add_recording(Job& job, const std::string& name, std::string_view text);

// Bytes of an element; 0: no type is called so. torch's names, and weft's.
Bytes element_bytes_of(const std::string& type);

// "all_reduce of 20 float (sum)", as the runtime's disagreements say it.
std::string text_of(const Call& call);

}  // namespace weft::rehearsal
