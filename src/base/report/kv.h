#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"

namespace weft::report {

// What a model's cache of keys and values takes.
struct KvSizeReport {
  std::string config, type;
  std::vector<std::string> left_out;  // of the file: what is not modelled
  bool latent = false;                // MLA
  std::int64_t layers = 0, tokens = 0, block_tokens = 0, tp = 1, copies = 1;
  Bytes token_bytes = 0;       // of layers whose cache grows, of all ranks, without copies
  Bytes rank_token_bytes = 0;  // of one rank
  // Layers by what they keep, and the sizes of those that do not grow.
  struct Window {
    std::int64_t tokens = 0, layers = 0;
    Bytes token_bytes = 0;  // per token within the window, of all these layers, without copies
  };
  std::int64_t growing_layers = 0, recurrent_layers = 0;
  std::vector<Window> windows;
  std::int64_t parameters = 0, active_parameters = 0;  // 0: the file has too few keys to count them
  Bytes index_token_bytes = 0;                         // keys of sparse attention's indexer, on every rank
  Bytes state_bytes = 0;                               // of recurrent layers, per sequence, of all ranks
  Bytes total_bytes = 0;                               // one sequence of `tokens` tokens, of all ranks, with copies
  Bytes store_bytes = 0;                               // … in a store, which keeps latent vectors once

  std::int64_t blocks() const { return (tokens + block_tokens - 1) / block_tokens; }
};

// What caches of one size would have served of a trace.
struct KvReplayRow {
  std::string policy;
  std::uint64_t hit_blocks = 0, hit_requests = 0;
  double seconds = 0;  // of the replay
};
struct KvReplayReport {
  std::string trace;
  std::int64_t capacity = 0;
  std::uint64_t requests = 0, blocks = 0, distinct = 0;
  std::string form;  // how the trace gives its blocks
  std::vector<KvReplayRow> rows;

  double rate(const KvReplayRow& row) const {
    return blocks == 0 ? 0 : static_cast<double>(row.hit_blocks) / static_cast<double>(blocks);
  }
};

// What it takes to fetch a prompt's cache on a modelled machine, and, where `prefill` says how long computing takes, to
// compute it again, or to do both until they meet.
struct KvFetchRow {
  std::int64_t tokens = 0;
  Bytes bytes = 0;  // of all ranks
  Duration fetch;
  std::string bound;  // the busiest link or part
  Duration recompute, both;
  std::int64_t computed = 0;  // tokens from the front, when both are done
  std::string choice;         // fetch, recompute, both
};
struct KvFetchReport {
  std::string config, machine, from, stack, prefill;
  double prefill_error = 0;  // relative
  std::int64_t tp = 1;
  Bytes rank_token_bytes = 0;
  std::vector<KvFetchRow> rows;
};

// Prompts of some length into and out of a store in another process, and the same blocks with Redis.
struct KvBenchRow {
  std::int64_t tokens = 0;
  Bytes bytes = 0;
  Duration put, get;
  Duration redis_put, redis_get;  // 0: not measured
  std::int64_t errors = -1;       // wrong bytes; -1: not looked at

  double gb_per_second(Duration time) const { return time.ps() > 0 ? static_cast<double>(bytes) / time.s() * 1e-9 : 0; }
};
struct KvBenchReport {
  Bytes block_bytes = 0;
  std::int64_t block_tokens = 0;
  std::string path;   // why this path, in the agent's words
  std::string redis;  // its version; empty: not measured
  std::vector<KvBenchRow> rows;
};

nlohmann::json to_json(const KvBenchReport& report);   // weft.bench_kv/1
nlohmann::json to_json(const KvSizeReport& report);    // weft.kv_size/1
nlohmann::json to_json(const KvFetchReport& report);   // weft.kv_fetch/1
nlohmann::json to_json(const KvReplayReport& report);  // weft.kv_replay/1

}  // namespace weft::report
