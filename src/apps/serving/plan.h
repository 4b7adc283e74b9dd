#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/kernels/host.h"
#include "apps/kernels/kernels.h"
#include "apps/serving/shape.h"
#include "weft/types.h"

namespace weft::serving {

// How one engine is spread over GPUs. tp × pp × dp GPUs; the experts of a stage are cut moe_tp times and spread over
// ep.
struct Plan {
  Rank tp = 1, pp = 1;
  Rank dp = 1;                 // attention's replicas: each has its own requests (attention-DP)
  Rank ep = 1;                 // ranks that experts are spread over
  std::string precision = "";  // of weights: bf16, fp8, fp8_block, fp4, int4; empty: the file's own
  std::string experts = "";    // of the experts' weights, where it is not `precision`
  std::string cache = "";      // of keys and values: bf16, fp8; empty: the engine's default

  Rank gpus() const { return tp * pp * dp; }
  Rank stage() const { return tp * dp; }
  Rank moe_tp() const { return stage() / ep; }
  bool operator==(const Plan&) const = default;
};
std::string describe(const Plan& plan);

// What an engine does beside its kernels: data/serving/engines.json.
struct Engine {
  std::string name, kernels, release;  // release: in words, where its behaviour is not that of all releases
  std::vector<std::string> vendors;    // whose cards it runs on, as the catalogue's titles begin
  double token_budget = 8192;          // tokens of an iteration at most
  std::int64_t most_sequences = 0;     // … sequences of a replica of attention; 0: what the cache holds
  bool mixed = true;                   // prefill and decode share iterations; otherwise a prefill runs alone
  bool overlapped = true;              // the host prepares an iteration while the GPU runs the one before
  double overlapped_share = 1;         // of the host's time, which is then the longest of its processes
  bool evicts = true;                  // otherwise a request starts only where all its tokens have room
  double memory_share = 0.9;           // of the card's memory that the engine uses
  // What the share is of: all that the engine uses (vLLM); weights and cache, the rest being for activations (SGLang);
  // what weights and activations leave, for the cache (TensorRT-LLM).
  enum class ShareOf : std::uint8_t { kAll, kWeightsAndCache, kFree } share_of = ShareOf::kAll;
  double host = 0, host_per_sequence = 0;  // s per iteration
  double small_kernel = 0;                 // s of a kernel that only moves activations, beside its bytes
  double prefill_host_per_layer = 0;       // s that the host takes to launch a layer outside a CUDA graph
  double first_response = 0;               // s from the first token to the client
  double tokenise = 0;                     // s per token of a prompt, before the engine sees it
  int cache_bytes_bf16 = 2, cache_bytes_fp8 = 2, cache_bytes_fp4 = 2;  // of keys and values, by weights' precision
  std::int64_t block_tokens = 16;
  double launch_share = 1;  // of kernels' launches, see Kernels::set_launch_share
  // Speculative decoding, by a draft layer that runs `drafts` times: an iteration gives a sequence its next token and
  // those of the drafts that are accepted, each with this probability if those before it are.
  int drafts = 0;
  double accept = 0;
  double tokens_per_step() const {  // of a sequence, on average
    double tokens = 1, chance = 1;
    for (int i = 0; i < drafts; ++i) tokens += chance *= accept;
    return tokens;
  }
  // Decoding's kernels are launched so; --enforce-eager and --disable-cuda-graph are eager.
  kernels::Launch launch = kernels::Launch::kGraphs;
  double graph_launch = 0;  // s to start a collective that is replayed from a CUDA graph
  // Iterations between two looks for new requests, with 16 sequences or more and with fewer; tokens that are sent to a
  // client at once.
  std::int64_t receive_interval = 1, receive_interval_few = 1, stream_interval = 1;
  std::vector<std::string> receive_cards;  // that have these intervals between looks; none: all of them
  Engine on(std::string_view card) const;  // the same on a card of this name
};
// "vllm", "sglang", "trtllm", each with a release: "vllm-0.12". Errors (bad input): another name, no release.
// `benchmark`: with the intervals that published benchmarks set instead of the engine's own; `apart`: those that they
// set for prefill and decode apart.
Result<Engine> load_engine(std::string_view name, bool benchmark = false, bool apart = false);
std::vector<std::string> engine_names();

// Types of a model's matrices under a plan.
struct Types {
  kernels::Precision dense = kernels::Precision::kBf16, attention = dense, experts = dense;
  int cache_bytes = 2;
};
// Errors (bad input): an unknown precision or cache type; a file whose own quantisation is not modelled, where the plan
// names none.
Result<Types> types_of(const Shape& shape, const Plan& plan, const Engine& engine, const kernels::Kernels& kernels);

// Errors (bad input): the plan does not divide the model's heads, layers or experts; it says what does.
Status check_plan(const Shape& shape, const Plan& plan);
// Errors (bad input): a request is longer than the model's context.
Status check_context(const Shape& shape, std::int64_t input, std::int64_t output);
// Errors (bad input): the engine does not run on cards of this vendor.
Status check_card(const Engine& engine, const kernels::Kernels& kernels);

// Bytes on the fullest GPU.
struct Memory {
  double weights = 0, activations = 0, reserved = 0, capacity = 0, usable = 0;
  double keys_and_values = 0;  // what is left for them; below 0: it does not fit
  double cache() const { return keys_and_values; }
  double token = 0;     // bytes that a token of a sequence takes on the GPUs that hold it
  double sequence = 0;  // bytes that a sequence takes whatever its length
  // Tokens that all replicas of attention keep together, if sequences have `length` tokens.
  double tokens(double length, Rank dp) const;
};
Memory memory_of(const Shape& shape, const Plan& plan, const Engine& engine, const Types& types,
                 const kernels::Kernels& kernels);

}  // namespace weft::serving
