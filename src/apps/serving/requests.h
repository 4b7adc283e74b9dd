#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serving/prefixes.h"
#include "base/result.h"

namespace weft::serving {

// One request. Times in seconds of virtual time; negative: not yet.
struct Request {
  std::int64_t input = 0, output = 1;  // tokens
  double arrival = 0;
  double started = -1;    // its first token of the prompt is computed
  double prefilled = -1;  // its prompt is computed
  double first = -1;      // its first token is there
  double finished = -1;
  double moved = 0;  // s that its cache took from the prefill pool to the decode pool
  int preempted = 0;
  int priority = 0;               // lower goes first, as vLLM counts
  std::uint32_t line = 0;         // of a trace's file
  std::uint64_t first_block = 0;  // of its prompt, in Load::prefixes
  std::uint32_t blocks = 0;

  double ttft() const { return first - arrival; }
  double tpot() const { return output > 1 ? (finished - first) / static_cast<double>(output - 1) : 0; }
};

// Which of several engines gets a request: the one with the fewest, each in turn, or, by prefixes, the one with least
// to do: tokens of the prompt that it does not have, of prompts that wait there, and of its cache in use, as routers
// that know the engines' caches weigh them (NVIDIA Dynamo's documentation, KV cache routing, 2026-10).
enum class Router : std::uint8_t { kFewest, kRoundRobin, kPrefixes };

// The source of requests: clients that wait for their answer before they ask again, a Poisson rate, or a trace.
struct Load {
  std::int64_t input = 1024, output = 1024;             // tokens; the longest, see spread
  double spread = 1;                                    // lengths are uniform between spread × length and length
  double urgent = 0;                                    // share of requests of priority -1, the others have 0
  std::int64_t concurrency = 0;                         // clients; 0: rate or trace
  double rate = 0;                                      // requests/s
  bool even = false;                                    // … all as far apart, else at random
  std::vector<Request> trace;                           // input, output and arrival, in the order of arrival
  std::shared_ptr<const Prefixes> prefixes;             // of the trace's prompts; null: none comes twice
  std::optional<kv::Policy> policy = kv::Policy::kLru;  // by which an engine keeps them; none: it does not
  std::optional<Router> router;                         // all replicas are simulated; none: one with its share
  // Where blocks that the GPUs' memory gives up stay: a part (cost::parse_tier) and its bytes for one engine, the
  // nearest first.
  std::vector<std::pair<std::string, double>> tiers;
  std::int64_t requests = 0;  // that are served; 0: enough for a steady state
  std::uint64_t seed = 1;
};

// Makes the requests of a load in the order in which they are asked. Closed loop: arrival of the first `concurrency` is
// the start; later ones arrive when an earlier one has finished. A value.
class Source {
 public:
  explicit Source(const Load& load);
  // The next request, if there is one; `now`: its arrival in a closed loop. Requires: more().
  Request next(double now);
  bool more() const { return made_ < count_; }
  std::int64_t count() const { return count_; }
  // The arrival of the next request of an open load.
  double next_arrival() const { return arrival_; }

 private:
  double uniform();  // in [0, 1)
  std::int64_t length(std::int64_t longest);
  void advance();

  const Load* load_;
  std::int64_t made_ = 0, count_ = 0;
  double arrival_ = 0;
  std::uint64_t state_;
};

// A trace in one of the forms of kv::parse_trace that say arrivals and lengths, in the order of arrival, the first at
// 0. `scale` multiplies its rate. Errors (bad input): those of kv::parse_trace; names the file, the line and what is
// missing.
struct ReadTrace {
  std::vector<Request> requests;
  std::shared_ptr<const Prefixes> prefixes;  // null: the form knows of none
};
Result<ReadTrace> parse_trace(const std::string& file, const std::string& text, double scale);
Result<ReadTrace> read_trace(const std::string& file, double scale);

}  // namespace weft::serving
