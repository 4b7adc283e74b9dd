#pragma once

#include <functional>

#include "apps/serving/best.h"
#include "apps/serving/compare.h"
#include "apps/serving/point.h"
#include "base/report/serve.h"

namespace weft::serving {

// A question about serving as it is typed.
struct Words {
  std::string model, on, engine = "vllm", trace;
  Plan plan;
  Fixed fixed;  // sizes that were typed
  int replicas = 1;
  double trace_scale = 1;
  Load load;
  std::string prefix_cache = "lru";  // a policy of weft kv, or off
  std::string router;                // among replicas: round-robin, fewest, kv-aware; empty: all are alike
  std::vector<std::string> tiers;    // below the GPUs' memory, "dram:1T": a part and its bytes for each engine
  double price = 0;                  // of a GPU-hour, in the asker's currency; 0: not asked
  // Prefill engines apart from those of `plan`: "2:tp=4,ep=4", "auto:tp=1" (as many as decoding needs); empty:
  // together.
  std::string prefill;
  std::string move = "whole";                          // how caches cross: whole or layers
  int decodes = 1;                                     // decode engines, where they are apart
  double ttft = 0, tpot = 0;                           // ms that --best must hold; 0: not asked
  std::int64_t percentile = 50;                        // of them
  std::int64_t most = 512;                             // clients per engine that --best goes up to
  std::int64_t batch_tokens = 0, batch_sequences = 0;  // of an iteration at most; 0: the engine's own limits
  double memory_share = 0;                             // of a card's memory that the engine uses; 0: its own
  std::vector<std::string> faults;                     // what is broken, as in weft bench
  double restart = 300;                                // s until engines with dead GPUs are back
  int drafts = 0;                                      // tokens that are guessed per step, each accepted with …
  double accept = 0;                                   // … this probability if those before it are
  std::string launch = "graphs";                       // of decoding's kernels: graphs, eager, blocking
  bool benchmark = false;                              // the engines' intervals as published benchmarks set them
};

// Errors (bad input): an unknown model or engine, no load or several, lengths and rates that are none, an empty trace.
Result<Question> understand(const Words& words);

// One plan's answer. Errors (bad input): those of understand and answer.
// `run`: receives the recorded run; null: it is not asked for.
Result<report::ServeReport> serve_words(const cost::MachineView& machine, const Words& words,
                                        std::shared_ptr<const Run>* run = nullptr);

// Every plan that fills the machine: the ranked ones first, then the others with their reason; the frontier's rows are
// marked and stand behind. Errors (bad input): those of understand and best_serving.
Result<report::ServeReport> best_words(const cost::MachineView& machine, const Words& words,
                                       const std::function<void(std::size_t plan, std::size_t plans)>& progress);

report::ServeRow row_of(const Question& question, const Point& point, double price);
std::string describe(const Load& load);
nlohmann::json to_json(const ServingComparison& comparison);  // weft.serve-compare/1

}  // namespace weft::serving
