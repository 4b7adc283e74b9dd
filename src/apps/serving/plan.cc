#include "apps/serving/plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/serving/files.h"
#include "base/counted.h"

namespace weft::serving {
namespace {

using kernels::Precision;
using nlohmann::json;

constexpr double kGiB = 1073741824.0;
constexpr double kReserved = 2 * kGiB;  // context, communication buffers and CUDA graphs; estimate, 2026-11-26

double d(std::int64_t n) { return static_cast<double>(n); }

Result<json> engines() {
  for (const auto& file : embedded::serving_files()) {
    if (!file.path.ends_with("/engines.json")) continue;
    json whole = json::parse(file.text, nullptr, false);
    if (whole.value("schema", "") == "weft.engines/1" && whole.contains("sources")) return whole;
    return bad_input("{}: no weft.engines/1 with sources", file.path);
  }
  return bad_input("data/serving/engines.json is not compiled in");
}

std::string numbers_that_divide(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 1; i <= std::min<std::int64_t>(n, 128); ++i)
    if (n % i == 0) all.push_back(i);
  return fmt::format("{}", fmt::join(all, ", "));
}

// Bytes that sequences keep for `count` layers on one GPU. The indexer's keys count as entries of the cache's type.
void add_cache(Memory& m, const LayerKind& k, const Plan& plan, double count, int bytes) {
  const double tp = d(plan.tp);
  m.sequence += count * d(k.state_elements()) / tp * 4;
  if (k.attention == Attention::kNone || !k.cached) return;
  const double entry = k.attention == Attention::kLatent ? d(k.kv_rank + k.rope_dim)
                                                         : d(k.entry_elements()) * std::max(1.0, d(k.kv_heads) / tp);
  if (k.window > 0) m.sequence += count * d(k.window) * entry * bytes;
  if (k.window == 0 || k.compress > 1) m.token += count * (entry + d(k.index_dim)) / d(k.compress) * bytes;
}

// True if a release comes before another one, both as numbers with dots.
bool before(std::string_view release, std::string_view other) {
  while (!release.empty() || !other.empty()) {
    int a = 0, b = 0;
    for (auto [text, value] : {std::pair{&release, &a}, {&other, &b}}) {
      const auto [end, bad] = std::from_chars(text->data(), text->data() + text->size(), *value);
      text->remove_prefix(static_cast<std::size_t>(end - text->data()));
      while (!text->empty() && text->front() != '.') text->remove_prefix(1);  // rc3, post1
      if (!text->empty()) text->remove_prefix(1);
    }
    if (a != b) return a < b;
  }
  return false;
}

// The release with measured rows that is nearest to one without: the last before it, or else the first. Empty: it has
// rows, or none was asked. Patches and candidates of a release are that release.
std::string nearest_measured(const json& e, std::string_view release) {
  if (release.empty()) return "";
  std::string nearest;
  for (const auto& m : e.value("measured", json::array())) {
    const auto known = m.get<std::string>();
    const auto within = [](std::string_view part, std::string_view of) {
      return of.starts_with(part) &&
             (of.size() == part.size() || std::isdigit(static_cast<unsigned char>(of[part.size()])) == 0);
    };
    if (within(known, release) || within(release, known)) return "";
    if (nearest.empty() || before(known, release)) nearest = known;
  }
  return nearest;
}

void read_sizes(const json& e, Engine& engine) {
  engine.token_budget = e.value("token_budget", engine.token_budget);
  engine.mixed = e.value("mixed", true);
  engine.overlapped = e.value("overlapped", true);
  engine.evicts = e.value("evicts", true);
  engine.vendors = e.value("vendors", engine.vendors);
  engine.memory_share = e.value("memory_share", engine.memory_share);
  const std::string of = e.value("memory_share_of", "all");
  engine.share_of = of == "weights and cache" ? Engine::ShareOf::kWeightsAndCache
                    : of == "free"            ? Engine::ShareOf::kFree
                                              : Engine::ShareOf::kAll;
  engine.host = e.value("host_us", 0.0) * 1e-6;
  engine.host_per_sequence = e.value("host_per_sequence_us", 0.0) * 1e-6;
  engine.small_kernel = e.value("small_kernel_us", 0.0) * 1e-6;
  engine.prefill_host_per_layer = e.value("prefill_host_per_layer_us", 0.0) * 1e-6;
  engine.first_response = e.value("first_response_ms", 0.0) * 1e-3;
  engine.block_tokens = e.value("block_tokens", engine.block_tokens);
  engine.launch_share = e.value("launch_share", 1.0);
}

void read_benchmark(const json& b, bool apart, Engine& engine) {
  engine.overlapped = b.value("overlapped", engine.overlapped);
  engine.receive_interval = b.value("receive_interval", std::int64_t{1});
  engine.receive_interval_few = b.value("receive_interval_few", engine.receive_interval);
  engine.receive_cards = b.value("receive_cards", engine.receive_cards);
  engine.stream_interval =
      b.value(apart ? "stream_interval_apart" : "stream_interval", b.value("stream_interval", std::int64_t{1}));
}

}  // namespace

Engine Engine::on(std::string_view card) const {
  Engine engine = *this;
  if (!receive_cards.empty() &&
      std::ranges::none_of(receive_cards, [&](const std::string& c) { return card.starts_with(c); }))
    engine.receive_interval = engine.receive_interval_few = 1;
  return engine;
}

std::string describe(const Plan& plan) {
  std::string text = fmt::format("tp {}", plan.tp);
  if (plan.pp > 1) text += fmt::format(", pp {}", plan.pp);
  if (plan.dp > 1) text += fmt::format(", dp-attention {}", plan.dp);
  if (plan.ep > 1) text += fmt::format(", ep {}", plan.ep);
  return text;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  if (const auto whole = engines())
    for (const json& e : (*whole)["engines"]) names.push_back(e.value("name", ""));
  return names;
}

Result<Engine> load_engine(std::string_view name, bool benchmark, bool apart) {
  WEFT_TRY(const json whole, engines());
  const std::size_t dash = name.find('-');
  const std::string_view release = dash == std::string_view::npos ? "" : name.substr(dash + 1);
  if (dash != std::string_view::npos && (release.empty() || std::isdigit(static_cast<unsigned char>(release[0])) == 0))
    return bad_input("--engine {}: the release is no number like 0.12", name);
  for (const json& e : whole["engines"]) {
    if (e.value("name", "") != name.substr(0, dash)) continue;
    Engine engine{.name = e.value("name", ""), .kernels = e.value("kernels", "")};
    read_sizes(e, engine);
    engine.overlapped_share = whole.value("overlapped_share", 1.0);
    engine.tokenise = whole.value("tokenise_us_per_token", 0.0) * 1e-6;
    engine.graph_launch = whole.value("graph_launch_us", 0.0) * 1e-6;
    if (const json old = e.value("before", json::object());
        !release.empty() && before(release, old.value("release", "")))
      engine.overlapped = old.value("overlapped", engine.overlapped),
      engine.release = "before " + old.value("release", "");
    if (const auto nearest = nearest_measured(e, release); !nearest.empty())
      engine.release +=
          fmt::format("{}no rows of {}, nearest {}", engine.release.empty() ? "" : "; ", release, nearest);
    if (benchmark) {
      engine.first_response = whole.value("benchmark_first_response_ms", 0.0) * 1e-3;
      if (e.contains("benchmark")) read_benchmark(e["benchmark"], apart, engine);
    }
    json cache = e.value("cache_bytes", json::object());
    if (benchmark && e.contains("benchmark")) cache.update(e["benchmark"].value("cache_bytes", json::object()));
    engine.cache_bytes_bf16 = cache.value("bf16", 2);
    engine.cache_bytes_fp8 = cache.value("fp8", 2);
    engine.cache_bytes_fp4 = cache.value("fp4", 2);
    return engine;
  }
  return bad_input("--engine {}: there are {}", name, fmt::join(engine_names(), ", "));
}

Result<Types> types_of(const Shape& shape, const Plan& plan, const Engine& engine, const kernels::Kernels& kernels) {
  std::string asked = plan.precision;
  if (asked.empty() && !shape.not_modelled.empty())
    return bad_input("{}; --precision says what its weights are like", shape.not_modelled);
  if (asked.empty())
    asked = shape.quantised.empty()                                    ? "bf16"
            : shape.quantised == "mxfp4" || shape.quantised == "nvfp4" ? "fp4"
                                                                       : shape.quantised;
  Types t{Precision::kBf16, Precision::kBf16, Precision::kBf16, engine.cache_bytes_bf16};
  if (asked == "fp8" || asked == "fp8_block") {
    const bool block =
        asked == "fp8_block" || shape.quantised == "fp8_block" || (shape.experts() && shape.quantised != "mxfp4");
    const Precision p = block ? Precision::kFp8Block : Precision::kFp8;
    t = {p, shape.attention_unquantised ? Precision::kBf16 : p, p, engine.cache_bytes_fp8};
  } else if (asked == "fp4") {
    const bool has = kernels.has_peak("fp4");
    const bool mx = shape.quantised == "mxfp4";
    const Precision experts = !has ? Precision::kMxfp4A16 : mx ? Precision::kMxfp4A8 : Precision::kNvfp4;
    // Published MXFP4 files quantise experts alone; NVFP4 files leave MLA's projections in 16 bits.
    const Precision dense = mx ? Precision::kBf16 : has ? Precision::kNvfp4 : Precision::kInt4A16;
    t = {dense, mx || shape.latent() ? Precision::kBf16 : dense, experts, engine.cache_bytes_fp4};
  } else if (asked == "int4") {
    // All of a file that leaves nothing out; where 4 bits are asked for, the experts alone.
    const bool experts_only = shape.attention_unquantised || (shape.experts() && shape.quantised != "int4");
    t.experts = Precision::kInt4A16;
    t.dense = t.attention = experts_only ? Precision::kBf16 : Precision::kInt4A16;
  } else if (asked == "int8" || asked == "w8a16") {
    const Precision p = asked == "int8" ? Precision::kInt8 : Precision::kW8A16;
    t.dense = t.experts = p;
    if (!shape.attention_unquantised) t.attention = p;
  } else if (asked != "bf16") {
    return bad_input("--precision {}: there are bf16, fp8, fp8_block, fp4, int4, int8 and w8a16", asked);
  }
  if (!plan.experts.empty() && plan.experts != plan.precision && shape.experts()) {
    Plan other = plan;
    other.precision = plan.experts;
    other.experts.clear();
    WEFT_TRY(const Types own, types_of(shape, other, engine, kernels));
    t.experts = own.experts;
    t.cache_bytes = std::min(t.cache_bytes, own.cache_bytes);
  }
  if (plan.cache == "fp8")
    t.cache_bytes = 1;
  else if (plan.cache == "bf16")
    t.cache_bytes = 2;
  else if (!plan.cache.empty())
    return bad_input("--kv-dtype {}: there are bf16 and fp8", plan.cache);
  return t;
}

Status check_context(const Shape& shape, std::int64_t input, std::int64_t output) {
  if (shape.longest <= 0 || input + output <= shape.longest) return {};
  return bad_input("{} input and {} output tokens: the context of {} has {} (max_position_embeddings)", input, output,
                   shape.name, shape.longest);
}

Status check_card(const Engine& engine, const kernels::Kernels& kernels) {
  const auto runs = [&](const std::string& vendor) { return kernels.title().starts_with(vendor); };
  if (engine.vendors.empty() || std::ranges::any_of(engine.vendors, runs)) return {};
  return bad_input("--engine {} does not run on {} ({}); it runs on cards of {}", engine.name, kernels.part(),
                   kernels.title(), fmt::join(engine.vendors, ", "));
}

Status check_plan(const Shape& shape, const Plan& plan) {
  for (const auto& [name, value] :
       {std::pair{"--tp", plan.tp}, {"--pp", plan.pp}, {"--dp-attention", plan.dp}, {"--ep", plan.ep}})
    if (value < 1) return bad_input("{} {}: a number from 1", name, value);
  const std::int64_t heads = shape.heads(), kv = shape.kv_heads();
  if (heads % plan.tp != 0)
    return bad_input("--tp {}: does not divide the {} heads of {}; {} do", plan.tp, heads, shape.name,
                     numbers_that_divide(heads));
  if (kv > 0 && kv % plan.tp != 0 && plan.tp % kv != 0)
    return bad_input("--tp {}: the {} heads of keys and values of {} cannot be spread evenly over it", plan.tp, kv,
                     shape.name);
  if (plan.pp > shape.layers())
    return bad_input("--pp {}: {} has {}", plan.pp, shape.name, counted(shape.layers(), "layer"));
  if (plan.ep > 1 && !shape.experts()) return bad_input("--ep {}: {} has no experts", plan.ep, shape.name);
  if (plan.stage() % plan.ep != 0)
    return bad_input("--ep {}: does not divide the {} of a stage (tp x dp-attention)", plan.ep,
                     counted(plan.stage(), "GPU"));
  for (const LayerKind& k : shape.kinds)
    if (k.experts > 0 && plan.ep > k.experts)
      return bad_input("--ep {}: {} has {}", plan.ep, shape.name, counted(k.experts, "expert"));
  return {};
}

double Memory::tokens(double length, Rank dp) const {
  if (cache() <= 0) return 0;
  const double each = token * length + sequence;
  return each > 0 ? cache() / each * length * d(dp) : 1e18;
}

Memory memory_of(const Shape& shape, const Plan& plan, const Engine& engine, const Types& types,
                 const kernels::Kernels& kernels) {
  Memory m;
  m.capacity = kernels.memory_bytes();
  m.reserved = kReserved;
  const double tp = d(plan.tp), h = d(shape.hidden), pp = d(plan.pp), matrices = d(shape.matrices);
  double widest = 0;
  // Drafts are made by a layer like the most frequent one, behind a projection of two vectors.
  const LayerKind* draft = engine.drafts > 0 ? &*std::ranges::max_element(shape.kinds, {}, &LayerKind::count) : nullptr;
  if (draft != nullptr) m.weights += 2 * h * h / tp * kernels::weight_bytes(types.dense);
  for (const LayerKind& k : shape.kinds) {
    const double count = d(k.count) / pp + (&k == draft ? 1 : 0);
    const double width = k.expert_hidden > 0 ? d(k.expert_hidden) : h;
    m.weights += count * d(k.mixer_parameters) / tp * kernels::weight_bytes(types.attention);
    m.weights += count * matrices * h * d(k.ffn + k.shared_ffn) / tp * kernels::weight_bytes(types.dense);
    m.weights += count * 2 * h * d(k.expert_hidden) * kernels::weight_bytes(types.dense);
    // GPUs that do not divide the experts hold redundant copies: all have as many as the fullest.
    const double experts = std::ceil(d(k.experts) / d(plan.ep)) / d(plan.moe_tp());
    m.weights += count * matrices * width * experts * d(k.expert_ffn) * kernels::weight_bytes(types.experts);
    m.weights += count * h * d(k.experts) * 2;
    widest = std::max(widest, std::max(d(k.ffn), d(k.top_k * k.expert_ffn) / d(plan.dp)) / tp);
    add_cache(m, k, plan, count, types.cache_bytes);
  }
  m.weights += d(shape.outer_parameters) / tp * 2;
  // Residual stream, queries, keys, values and an MLP's intermediate values of a full iteration, in 16 bits.
  m.activations = engine.token_budget * (8 * h + 3 * widest) * 2;
  const double others = m.weights + m.activations + m.reserved;
  switch (engine.share_of) {
    case Engine::ShareOf::kAll:
      m.keys_and_values = m.capacity * engine.memory_share - others;
      break;
    case Engine::ShareOf::kWeightsAndCache:
      // What is left must hold the activations, too.
      m.keys_and_values = std::min(m.capacity * engine.memory_share - m.weights, m.capacity - others);
      break;
    case Engine::ShareOf::kFree:
      m.keys_and_values = (m.capacity - others) * (m.capacity > others ? engine.memory_share : 1);
      break;
  }
  m.usable = m.keys_and_values + others;
  return m;
}

}  // namespace weft::serving
