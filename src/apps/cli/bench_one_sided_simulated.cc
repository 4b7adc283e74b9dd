#include "apps/cli/bench_machine.h"
#include "apps/cli/bench_one_sided.h"
#include "base/text.h"
#include "model/replay/run.h"

// The programs of `weft bench put` and its like, written down and replayed in virtual time.
namespace weft::cli {
namespace {

using pgas::Event;
using Kind = Event::Kind;

constexpr pgas::Place kTarget{0, 0}, kFlag{1, 0};
constexpr Bytes kWord = 8;

// A program of two ranks, the first and the last of the job, in the order in which things happen.
class Script {
 public:
  explicit Script(Rank ranks) : program_(static_cast<std::size_t>(ranks)), last_(ranks - 1) {}

  // What `from` (0, or 1 for the last rank) does to the other one.
  void does(int from, Event event) {
    const Rank self = from == 0 ? 0 : last_;
    if (event.kind != Kind::kWait) event.peer = from == 0 ? last_ : 0;
    event.begin = event.end = Duration::nanoseconds(++clock_);
    program_[static_cast<std::size_t>(self)].push_back(std::move(event));
  }
  void waits(int who, std::uint64_t value) {
    does(who, {.kind = Kind::kWait, .place = kFlag, .bytes = kWord, .valued = true, .value = value});
  }
  const pgas::Program& program() const { return program_; }

 private:
  pgas::Program program_;
  Rank last_;
  double clock_ = 0;
};

Event put(Bytes bytes) { return {.kind = Kind::kPut, .place = kTarget, .bytes = bytes}; }
Event set_flag(Kind kind, Bytes bytes, std::uint64_t value) {
  return {.kind = kind, .place = kFlag, .bytes = bytes, .valued = true, .value = value};
}

// One message there and one back, in turns: half of it is a row's time.
pgas::Program ping_pong(Rank ranks, int rounds, const std::function<void(Script&, int, std::uint64_t)>& send) {
  Script script(ranks);
  for (std::uint64_t n = 1; n <= static_cast<std::uint64_t>(rounds); ++n)
    for (const int from : {0, 1}) {
      send(script, from, n);
      script.waits(1 - from, n);
    }
  return script.program();
}

// One operation after the other, then quiet.
pgas::Program stream(Rank ranks, int n, const Event& operation) {
  Script script(ranks);
  for (int i = 0; i < n; ++i) script.does(0, operation);
  script.does(0, {.kind = Kind::kQuiet});
  return script.program();
}

struct Way {
  std::string what;
  pgas::Program program;
  int operations;
  int crossings = 1;  // of the path, by the first byte of one operation
};

std::vector<Way> ways_of(const std::string& name, Rank ranks, Bytes bytes) {
  constexpr int kRounds = 8, kMany = 64;
  const auto put_then = [bytes](bool quiet) {
    return [bytes, quiet](Script& s, int from, std::uint64_t n) {
      s.does(from, put(bytes));
      if (quiet) s.does(from, {.kind = Kind::kQuiet});
      s.does(from, set_flag(Kind::kPut, kWord, n));
    };
  };
  const auto signalled = [bytes](Script& s, int from, std::uint64_t n) {
    s.does(from, set_flag(Kind::kPutSignal, bytes, n));
  };
  if (name == "put")
    return {{"put, fence, flag", ping_pong(ranks, kRounds, put_then(false)), 2 * kRounds},
            {"back-to-back puts", stream(ranks, kMany, put(bytes)), kMany, 0}};
  if (name == "get")
    return {
        {"back-to-back gets", stream(ranks, kMany, {.kind = Kind::kGet, .place = kTarget, .bytes = bytes}), kMany, 2}};
  if (name == "put_signal")
    return {{"put_signal", ping_pong(ranks, kRounds, signalled), 2 * kRounds},
            {"put, quiet, put", ping_pong(ranks, kRounds, put_then(true)), 2 * kRounds}};
  return {{"fetch_add", stream(ranks, kMany, {.kind = Kind::kFetch, .place = kFlag, .bytes = kWord}), kMany, 2},
          {"add", stream(ranks, kMany, {.kind = Kind::kAtomic, .place = kFlag, .bytes = kWord}), kMany, 0}};
}

}  // namespace

Result<int> bench_one_sided_simulated(const BenchSpec& spec) {
  WEFT_TRY(const Machine machine, machine_to_replay_on(spec));
  WEFT_TRY(const std::int64_t asked,
           parse_integer("--ranks", spec.sweep.ranks_text.empty() ? "2" : spec.sweep.ranks_text, 2, 1 << 20));
  WEFT_TRY(const Rank ranks, ranks_on(machine, asked));
  WEFT_TRY(auto sizes, sizes_of(spec.sweep));
  if (spec.sweep.collective_name == "atomic") sizes = {kWord};
  const topology::Path path = machine.view->path(0, ranks - 1);
  std::optional<Duration> posting;
  if (!spec.conditions.post.empty()) {
    WEFT_TRY(posting, cost::posting_time(spec.conditions.post));
    if (path.type != topology::PathType::kNet)
      return bad_input("--post {}: over {} ranks load and store, nothing is posted", spec.conditions.post,
                       name(path.type));
  }
  OneSidedTable table(spec, "simulated", machine.name, ranks);
  for (const std::string& fault : spec.conditions.faults)
    if (spec.json != "-") fmt::print("# fault {}\n", fault);
  table.header(fmt::format("{} (simulated), rank 0 and rank {} over {}", machine.name, ranks - 1, name(path.type)),
               "the wires alone");
  for (const Bytes bytes : sizes)
    for (const Way& way : ways_of(spec.sweep.collective_name, ranks, bytes)) {
      WEFT_TRY(const replay::Outcome outcome, replay::run_on(*machine.view, way.program, 0, posting));
      table.row({bytes, way.what, outcome.total.us() / way.operations,
                 (path.latency * way.crossings + bytes / path.rate).us()});
    }
  WEFT_CHECK(table.write());
  return 0;
}

}  // namespace weft::cli
