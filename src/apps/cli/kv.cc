#include <chrono>

#include "apps/cli/commands.h"
#include "apps/cli/kv_fetch.h"
#include "base/counted.h"
#include "base/report/kv.h"
#include "base/text.h"
#include "base/text_file.h"
#include "move/kv/model.h"
#include "move/kv/replay.h"

namespace weft::cli {
namespace {

constexpr std::uintmax_t kLargestTrace = std::uintmax_t{4} << 30;

struct Spec {
  std::string config, type, tokens = "1", json;
  std::int64_t block_tokens = 16, tp = 1;
  bool cuts_blocks = false;  // --block-tokens is given
  std::string trace, policy = "all", blocks;
};

report::KvSizeReport size_report(const Spec& spec, std::string_view text, const kv::ModelShape& model,
                                 std::int64_t tokens) {
  const models::CacheShape cache = model.model.cache();
  report::KvSizeReport r{.config = spec.config,
                         .type = model.type,
                         .left_out = model.model.left_out,
                         .latent = model.mla(),
                         .layers = model.layers(),
                         .tokens = tokens,
                         .block_tokens = spec.block_tokens,
                         .tp = spec.tp,
                         .copies = model.mla() ? spec.tp : model.copies(spec.tp),
                         .token_bytes = model.growing_bytes(),
                         .rank_token_bytes = model.model.cache(spec.tp).token_elements * model.element_bytes,
                         .growing_layers = cache.growing_layers,
                         .recurrent_layers = cache.recurrent_layers,
                         .index_token_bytes = model.index_bytes(),
                         .state_bytes = model.state_bytes(1)};
  if (r.latent) r.rank_token_bytes = r.token_bytes;
  // A file that only says what its cache needs has no vocabulary or MLP to count.
  if (models::parse_config(spec.config, text)) {
    r.parameters = model.model.parameters();
    r.active_parameters = model.model.active_parameters();
  }
  for (const auto& w : cache.windows) r.windows.push_back({w.tokens, w.layers, w.elements * model.element_bytes});
  r.total_bytes = model.sequence_bytes(tokens, r.latent ? 1 : spec.tp) * spec.tp;
  r.store_bytes = r.latent ? r.total_bytes / spec.tp : r.total_bytes;
  return r;
}

void print_size(const report::KvSizeReport& r) {
  const auto row = [](std::string_view what, Bytes bytes, const std::string& more = "") {
    fmt::print("  {:<26} {:>14}{}{}\n", what, bytes, more.empty() ? "" : "  ", more);
  };
  fmt::print("{} {} {:.6g} GB in {} of {} tokens.\n", counted(r.tokens, "token"), r.tokens == 1 ? "takes" : "take",
             static_cast<double>(r.total_bytes) * 1e-9, counted(r.blocks(), "block"), r.block_tokens);
  row("bytes per token", r.token_bytes,
      r.growing_layers == r.layers
          ? ""
          : fmt::format("{} of {} grow with every token", r.growing_layers, counted(r.layers, "layer")));
  fmt::print("  {:<26} {:>14}  {}, {}\n", "form", r.latent ? "latent" : "heads", counted(r.layers, "layer"), r.type);
  if (r.parameters > 0)
    row("parameters", r.parameters,
        r.active_parameters == r.parameters ? "" : fmt::format("{} of them per token", r.active_parameters));
  for (const auto& w : r.windows)
    row("bytes within a window", w.token_bytes * w.tokens,
        fmt::format("{} keep the last {} tokens: {} bytes per token", counted(w.layers, "layer"), w.tokens,
                    w.token_bytes));
  if (r.index_token_bytes > 0) row("indexer bytes per token", r.index_token_bytes, "keys of sparse attention, FP8");
  if (r.recurrent_layers > 0)
    row("bytes of states", r.state_bytes,
        fmt::format("{}, FP32, per sequence", counted(r.recurrent_layers, "recurrent layer")));
  row("copies over the ranks", r.copies, r.latent && r.copies > 1 ? "every rank holds the latent vectors" : "");
  if (r.store_bytes < r.total_bytes) row("bytes in a store", r.store_bytes, "which keeps one copy");
  row("bytes per token and rank", r.rank_token_bytes);
  row("bytes per block and rank", r.rank_token_bytes * r.block_tokens);
  for (const std::string& part : r.left_out) fmt::print("  {:<26} {:>14}  {}\n", "not modelled", "", shown(part));
}

Result<int> size(const Spec& spec) {
  WEFT_TRY(const std::int64_t tokens, parse_integer("--tokens", spec.tokens, 1, std::int64_t{1} << 40));
  if (spec.block_tokens < 1 || spec.block_tokens > (1 << 20))
    return bad_input("--block-tokens {}: 1 to {}", spec.block_tokens, 1 << 20);
  WEFT_TRY(const models::Config config, models::config_of(spec.config));
  const std::string& text = config.text;
  WEFT_TRY(const kv::ModelShape model, kv::parse_model(text, config.file, spec.type));
  WEFT_CHECK(kv::check_tp(model, spec.tp));
  WEFT_CHECK(check_query_heads(model, spec.tp));
  if (static_cast<double>(model.sequence_bytes(1, spec.tp)) * static_cast<double>(spec.tp) *
          static_cast<double>(tokens) >
      9e18)
    return bad_input("--tokens {}: more bytes than 64 bits count", tokens);
  const report::KvSizeReport r = size_report(spec, text, model, tokens);
  if (spec.json != "-") print_size(r);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(r)));
  return 0;
}

// Whether the trace's first line has blocks by their hashes.
bool has_hashes(std::string_view text) { return text.substr(0, text.find('\n')).find("\"hash_ids\"") != text.npos; }

// Digits that 64 bits do not hold are a number out of range, not a text that is none.
Result<std::int64_t> blocks_of(const std::string& text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (digits && text.size() > 18) return bad_input("--blocks {} is outside 1 … {}", text, kMost);
  return parse_integer("--blocks", text, 1, kMost);
}

Result<int> replay(const Spec& spec) {
  WEFT_TRY(const std::int64_t capacity, blocks_of(spec.blocks));
  if (spec.block_tokens < 1 || spec.block_tokens > (1 << 20))
    return bad_input("--block-tokens {}: 1 to {}", spec.block_tokens, 1 << 20);
  std::vector<kv::Policy> policies(std::begin(kv::kPolicies), std::end(kv::kPolicies));
  if (spec.policy != "all") {
    WEFT_TRY(const kv::Policy one, kv::parse_policy(spec.policy));
    policies = {one};
  }
  WEFT_TRY(const std::string text, read_text_file(spec.trace, kLargestTrace));
  WEFT_TRY(const kv::Trace trace, kv::parse_trace(text, spec.trace, spec.block_tokens));
  if (spec.cuts_blocks && has_hashes(text))
    return bad_input("--block-tokens {}: {} has \"hash_ids\", one for each block of the size that it was made with",
                     spec.block_tokens, spec.trace);
  report::KvReplayReport r{.trace = spec.trace,
                           .capacity = capacity,
                           .requests = trace.requests(),
                           .blocks = trace.blocks.size(),
                           .distinct = trace.distinct,
                           .form = trace.form};
  for (const kv::Policy policy : policies) {
    const auto begin = std::chrono::steady_clock::now();
    const kv::Hits hits = kv::replay(trace, capacity, policy);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    r.rows.push_back({std::string(kv::name(policy)), hits.hit_blocks, hits.hit_requests, took.count()});
  }
  if (spec.json != "-") {
    fmt::print("A cache of {} serves {:.3f} of this trace's blocks with {}.\n", counted(capacity, "block"),
               r.rate(r.rows[0]), r.rows[0].policy);
    fmt::print("# {}, {}, {} distinct; {}\n# {:<8} {:>9} {:>12} {:>13} {:>18}\n", counted(r.requests, "request"),
               counted(r.blocks, "block"), r.distinct, r.form, "policy", "hit rate", "hit blocks", "hit requests",
               "replayed (req/s)");
    for (const auto& row : r.rows)
      fmt::print("  {:<8} {:>9.3f} {:>12} {:>13} {:>18.3g}\n", row.policy, r.rate(row), row.hit_blocks,
                 row.hit_requests, row.seconds > 0 ? static_cast<double>(r.requests) / row.seconds : 0);
  }
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(r)));
  return 0;
}

}  // namespace

Command add_kv(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub =
      app.add_subcommand("kv", "Caches of keys and values: what they take, and what they would have served");
  sub->require_subcommand(1);
  CLI::App* sizes = sub->add_subcommand("size", "What a model's cache takes, from its config.json");
  sizes->add_option("config", spec->config, "the model's config.json, or a name of the catalogue")->required();
  sizes->add_option("--tokens", spec->tokens, "how many tokens")->capture_default_str();
  sizes->add_option("--block-tokens", spec->block_tokens, "tokens of a block")->capture_default_str();
  sizes->add_option("--tp", spec->tp, "ranks of tensor parallelism")->capture_default_str();
  sizes->add_option("--dtype", spec->type, "elements of the cache, if not the model's: bfloat16, float16, fp8, int8");
  sizes->add_option("--json", spec->json, "write weft.kv_size/1 to this file; - is stdout instead of text")
      ->check(writable);
  CLI::App* replays = sub->add_subcommand("replay", "What a cache would have served of a trace");
  replays->add_option("trace", spec->trace, "requests in Mooncake's, Azure's or ShareGPT's form (docs/transfers.md)")
      ->required();
  CLI::Option* cut =
      replays->add_option("--block-tokens", spec->block_tokens, "tokens of a block, where the trace has tokens or text")
          ->capture_default_str();
  replays->add_option("--blocks", spec->blocks, "capacity of the cache in blocks")->required();
  replays->add_option("--policy", spec->policy, "lru, lfu, s3fifo, optimum (knows the future), or all")
      ->capture_default_str();
  replays->add_option("--json", spec->json, "write weft.kv_replay/1 to this file; - is stdout instead of text")
      ->check(writable);
  auto fetch = std::make_shared<KvFetchSpec>();
  CLI::App* fetches =
      sub->add_subcommand("fetch", "On a modelled machine: fetch a prompt's cache, compute it again, or both");
  fetches->add_option("config", fetch->config, "the model's config.json, or a name of the catalogue")->required();
  fetches->add_option("--on", fetch->on, "the machine: a preset, a preset with options, or a file");
  fetches->add_option("--calibration", fetch->calibration, "constants from this file (weft calibrate --from)");
  fetches
      ->add_option(
          "--from", fetch->from,
          "where the cache is: node (the next node's GPUs), gpu (the node's next GPUs), dram, nvme-gen5*4, cxl2-x8")
      ->capture_default_str();
  fetches->add_option("--stack", fetch->stack, "whose software hands over: weft, mooncake (default: weft)");
  fetches->add_option("--prefill", fetch->prefill,
                      "how long computing takes: TOKENS:MS,TOKENS:MS,..., or a name such as llama2-70b/H100-SXM5/tp8");
  fetches->add_option("--tokens", fetch->tokens, "lengths of prompts")->capture_default_str();
  fetches->add_option("--block-tokens", fetch->block_tokens, "tokens of a block")->capture_default_str();
  fetches->add_option("--tp", fetch->tp, "ranks of tensor parallelism, all at once")->capture_default_str();
  fetches->add_option("--dtype", fetch->type,
                      "elements of the cache, if not the model's: bfloat16, float16, fp8, int8");
  fetches->add_option("--json", fetch->json, "write weft.kv_fetch/1 to this file; - is stdout instead of text")
      ->check(writable);
  sub->footer(
      "\nExamples:\n  weft kv size config.json --tokens 100000 --tp 8\n  weft kv replay trace.jsonl --blocks 10000 "
      "--policy lru\n  weft kv fetch config.json --on dgx-h100:nodes=2 --tp 8 --prefill llama2-70b/H100-SXM5/tp8\n");
  return {sub, [spec, fetch, sizes, fetches, cut] {
            spec->cuts_blocks = cut->count() > 0;
            if (fetches->parsed()) return kv_fetch(*fetch);
            return sizes->parsed() ? size(*spec) : replay(*spec);
          }};
}

}  // namespace weft::cli
