#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/recorder/ticks.h"

namespace weft::recorder {

struct Identity;

// What a trace can hold. A mask has one bit for each.
enum class Category : std::uint8_t {
  kCall = 1,  // operations of the communicator, from their start to their end
  kWait = 2,  // within them: nothing could move on, and whom the rank waited for
  kMove = 4,  // within them: every slice that a strand sent, received, added up or copied
};

// "call,wait" or "all" to a mask. Errors (bad input): an unknown category, or none; those that there are.
Result<unsigned> parse_categories(const std::string& text);

// Where a trace goes and what it holds.
struct TraceOptions {
  std::string pattern;  // of its file: %r is the rank, %p the process, %g the communicator; empty: no trace
  unsigned categories = 0;
};

struct Move {
  std::int64_t bytes = 0;
  int from = -1, to = -1;  // the first peer it comes from, and goes to; -1: none
  int sources = 0, destinations = 0;
};

// One rank's timeline in one communicator: Chrome's trace event format, one event a line, so that a file that breaks
// off is still read (Perfetto and `weft trace` do). Events are kept in memory and written by the thousand.
// Thread: the rank's. Owns: the file.
class Trace {
 public:
  // Errors (bad input): the file cannot be made. A file that is there already gets a neighbour with a number.
  static Result<std::unique_ptr<Trace>> open(const TraceOptions& options, const Identity& identity);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  bool wants(Category category) const { return (categories_ & static_cast<unsigned>(category)) != 0; }

  // `arguments`: the inside of a JSON object.
  void call(std::string name, std::string arguments, std::uint64_t begin, std::uint64_t end);
  void wait(int peer, std::uint64_t begin, std::uint64_t end);
  void move(int strand, const Move& move, std::uint64_t begin, std::uint64_t end);
  // What the sockets of the process have carried until now, over transports that have some.
  void write_rails();

 private:
  struct Event {
    Category category;
    int lane;  // strand, or peer
    std::uint64_t begin, end;
    Move move;
    std::string name, arguments;
  };
  Trace(std::FILE* file, const Identity& identity, unsigned categories, const Anchor& opened);
  void keep(Event event);
  void write();

  std::FILE* file_;
  int rank_;
  bool over_sockets_;
  unsigned categories_;
  Anchor opened_;
  std::vector<Event> events_;
};

}  // namespace weft::recorder
