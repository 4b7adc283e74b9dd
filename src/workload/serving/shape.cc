#include "workload/serving/shape.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text_file.h"
#include "workload/serving/files.h"

namespace weft::serving {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = std::int64_t{1} << 32;  // of any count in a config, see too_large
constexpr std::string_view kFolder = "data/serving/models/";

// The keys of one config. The first error is kept.
class Keys {
 public:
  Keys(std::string_view file, const json& object) : file_(file), object_(object) {}
  std::int64_t find(std::initializer_list<const char*> names, std::int64_t otherwise = 0) {
    for (const char* name : names) {
      const auto at = object_.find(name);
      if (at == object_.end() || at->is_null() || at->is_array()) continue;
      if (at->is_number_integer() && *at >= 0 && *at <= kMost) return at->get<std::int64_t>();
      fail(fmt::format("{}: {}: {} is no count between 0 and 2^32", file_, name, at->dump()));
    }
    return otherwise;
  }
  std::int64_t need(std::initializer_list<const char*> names) {
    const std::int64_t value = find(names);
    if (value == 0) fail(fmt::format("{}: key {} is missing or 0", file_, *names.begin()));
    return std::max<std::int64_t>(value, 1);
  }
  std::string word(const char* name) const {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_string() ? at->get<std::string>() : "";
  }
  bool flag(const char* name, bool otherwise) const {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_boolean() ? at->get<bool>() : otherwise;
  }
  const json* list(const char* name) const {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_array() ? &*at : nullptr;
  }
  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  std::string file_;
  const json& object_;
  std::string error_;
};

LayerKind attention_of(Keys& keys, std::int64_t hidden) {
  LayerKind k;
  k.heads = keys.need({"num_attention_heads", "n_head"});
  k.kv_heads = keys.find({"num_key_value_heads"}, k.heads);
  k.kv_rank = keys.find({"kv_lora_rank"});
  if (k.kv_rank > 0) {
    k.attention = Attention::kLatent;
    k.q_rank = keys.find({"q_lora_rank"});
    k.rope_dim = keys.need({"qk_rope_head_dim"});
    k.nope_dim = keys.need({"qk_nope_head_dim"});
    k.value_dim = keys.need({"v_head_dim"});
    k.head_dim = k.rope_dim + k.nope_dim;
    k.index_top_k = keys.find({"index_topk"});
    k.index_heads = keys.find({"index_n_heads"});
    k.index_dim = keys.find({"index_head_dim"});
    return k;
  }
  k.head_dim = k.value_dim = keys.find({"head_dim"}, hidden / k.heads);
  k.output_gate = keys.flag("attn_output_gate", false);
  if (k.kv_heads == 0 || k.heads % k.kv_heads != 0)
    keys.fail(fmt::format("num_key_value_heads {} does not divide {} heads", k.kv_heads, k.heads));
  return k;
}

// The kind of attention of a layer by its name in layer_types.
LayerKind of_type(Keys& keys, const LayerKind& full, const std::string& type) {
  LayerKind k = full;
  if (type.starts_with("sliding") || type.starts_with("chunked")) {
    k.window = keys.need({"sliding_window", "attention_chunk_size"});
  } else if (type == "linear_attention") {
    k = {.attention = Attention::kLinear};
    k.key_heads = keys.need({"linear_num_key_heads"});
    k.heads = k.kv_heads = keys.need({"linear_num_value_heads"});
    k.key_dim = keys.need({"linear_key_head_dim"});
    k.head_dim = k.value_dim = keys.need({"linear_value_head_dim"});
    k.convolution = keys.find({"linear_conv_kernel_dim"}, 4);
  } else if (type != "full_attention") {
    keys.fail(fmt::format("layer_types: '{}' is not modelled (full, sliding, chunked or linear attention)", type));
  }
  return k;
}

bool expert_layer(Keys& keys, std::int64_t layer) {
  if (const json* only = keys.list("mlp_only_layers"))
    for (const json& l : *only)
      if (l == layer) return false;
  if (const json* each = keys.list("moe_layer_freq"))
    return layer < std::ssize(*each) && (*each)[static_cast<std::size_t>(layer)] == 1;
  const std::int64_t first = keys.find({"first_k_dense_replace"});
  const std::int64_t every = std::max<std::int64_t>(1, keys.find({"moe_layer_freq", "decoder_sparse_step"}, 1));
  return layer >= first && (first > 0 ? (layer - first) % every == 0 : (layer + 1) % every == 0);
}

void add_feed(Keys& keys, LayerKind& k, std::int64_t layer) {
  k.experts = keys.find({"n_routed_experts", "num_experts", "num_local_experts"});
  if (k.experts == 0 || !expert_layer(keys, layer)) {
    k.experts = 0;
    k.ffn = keys.need({"intermediate_size"});
    return;
  }
  k.top_k = keys.need({"num_experts_per_tok", "experts_per_token"});
  k.expert_ffn = keys.need({"moe_intermediate_size", "intermediate_size"});
  k.shared_ffn =
      keys.find({"shared_expert_intermediate_size"}, std::min<std::int64_t>(keys.find({"n_shared_experts"}), 1024) *
                                                         std::min<std::int64_t>(k.expert_ffn, 1 << 20));
  if (k.top_k > k.experts) keys.fail(fmt::format("{} experts per token, but there are {}", k.top_k, k.experts));
}

void read_quantisation(const json& whole, const json& inner, Shape& s) {
  const json* q = nullptr;
  for (const json* from : {&inner, &whole})
    if (const auto at = from->find("quantization_config"); at != from->end() && at->is_object()) q = &*at;
  if (q == nullptr) return;
  const std::string method = q->value("quant_method", ""), algorithm = q->value("quant_algo", "");
  if (method == "fp8") s.quantised = q->contains("weight_block_size") ? "fp8_block" : "fp8";
  if (method == "mxfp4") s.quantised = "mxfp4";
  if (method == "modelopt") s.quantised = algorithm == "NVFP4" ? "nvfp4" : "fp8";
  if (method == "compressed-tensors" && q->value("num_bits", 4) == 4) s.quantised = "int4";
  for (const char* list : {"modules_to_not_convert", "ignore", "exclude_modules"})
    if (const auto at = q->find(list); at != q->end() && at->is_array())
      for (const json& module : *at)
        if (module.is_string() && module.get<std::string>().find("self_attn") != std::string::npos &&
            module.get<std::string>().find("norm") == std::string::npos)
          s.attention_unquantised = true;
}

// Sizes whose products still are counts: no model is near them. Empty: they are.
std::string too_large(const Shape& s) {
  constexpr std::int64_t kHidden = 1 << 18, kWidth = 1 << 19, kHeads = 1 << 20, kExperts = 1 << 12, kVocab = 1 << 26;
  if (s.hidden > kHidden) return "hidden_size";
  if (s.vocab > kVocab) return "vocab_size";
  for (const LayerKind& k : s.kinds) {
    if (k.ffn > kWidth || k.expert_ffn > kWidth || k.shared_ffn > kWidth) return "intermediate_size";
    if (k.experts > kExperts) return "num_experts";
    if (std::max({k.heads, k.kv_heads, k.key_heads}) > kHidden ||
        std::max({k.head_dim, k.value_dim, k.key_dim, k.nope_dim, k.rope_dim}) > kHidden)
      return "head_dim";
    if (k.heads * std::max(k.head_dim, k.value_dim) > kHeads || k.kv_heads * k.head_dim > kHeads ||
        k.key_heads * k.key_dim > kHeads || k.heads * k.nope_dim > kHeads)
      return "num_attention_heads";
    if (std::max({k.q_rank, k.kv_rank, k.index_heads, k.index_dim, k.convolution, k.index_top_k}) > kHidden ||
        k.index_heads * k.index_dim > kHeads)
      return "q_lora_rank";
  }
  return "";
}

// Lower case, without the organisation and endings that name a form of the weights.
std::string plain(std::string name) {
  if (const auto slash = name.rfind('/'); slash != std::string::npos) name.erase(0, slash + 1);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.starts_with("meta-")) name.erase(0, 5);
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view end :
         {"-nvfp4", "-fp4", "-fp8", "-bf16", "-int4", "-mxfp4", "-instruct", "-it", "-v2", "-dynamic"})
      if (name.ends_with(end)) name.resize(name.size() - end.size()), again = true;
  }
  return name;
}

}  // namespace

std::int64_t LayerKind::query_width() const { return heads * head_dim; }

std::int64_t LayerKind::mixer_parameters(std::int64_t hidden) const {
  switch (attention) {
    case Attention::kHeads:
      return hidden * (query_width() * (output_gate ? 2 : 1) + kv_heads * (head_dim + value_dim)) +
             value_width() * hidden;
    case Attention::kLatent: {
      const std::int64_t queries = q_rank > 0 ? hidden * q_rank + q_rank * query_width() : hidden * query_width();
      const std::int64_t index =
          index_heads > 0 ? index_heads * index_dim * q_rank + (index_dim + index_heads) * hidden : 0;
      return queries + hidden * (kv_rank + rope_dim) + kv_rank * heads * (nope_dim + value_dim) +
             value_width() * hidden + index;
    }
    case Attention::kLinear:  // queries, keys, values, output gate, two gates per head; output
      return hidden * (2 * key_heads * key_dim + 2 * value_width() + 2 * heads) + value_width() * hidden;
  }
  return 0;
}

std::int64_t LayerKind::cache_elements() const {
  if (attention == Attention::kLinear) return 0;
  if (attention == Attention::kLatent) return kv_rank + rope_dim + (index_heads > 0 ? index_dim : 0);
  return kv_heads * (head_dim + value_dim);
}

std::int64_t LayerKind::state_elements() const {
  if (attention != Attention::kLinear) return 0;
  return heads * key_dim * value_dim + convolution * (2 * key_heads * key_dim + value_width());
}

std::int64_t Shape::layers() const {
  std::int64_t n = 0;
  for (const LayerKind& k : kinds) n += k.count;
  return n;
}
bool Shape::experts() const {
  return std::ranges::any_of(kinds, [](const LayerKind& k) { return k.experts > 0; });
}
bool Shape::latent() const {
  return std::ranges::any_of(kinds, [](const LayerKind& k) { return k.attention == Attention::kLatent; });
}
std::int64_t Shape::heads() const {
  std::int64_t most = 0;
  for (const LayerKind& k : kinds)
    if (k.attention != Attention::kLinear) most = std::max(most, k.heads);
  return most;
}
std::int64_t Shape::kv_heads() const {
  std::int64_t most = 0;
  for (const LayerKind& k : kinds)
    if (k.attention == Attention::kHeads) most = std::max(most, k.kv_heads);
  return most;
}

std::int64_t Shape::parameters() const {
  std::int64_t n = vocab * hidden * (tied ? 1 : 2);
  for (const LayerKind& k : kinds)
    n += k.count * (k.mixer_parameters(hidden) + 3 * hidden * (k.ffn + k.experts * k.expert_ffn + k.shared_ffn) +
                    hidden * k.experts);
  return n;
}
std::int64_t Shape::active_parameters() const {
  std::int64_t n = parameters();
  for (const LayerKind& k : kinds) n -= k.count * 3 * hidden * (k.experts - k.top_k) * k.expert_ffn;
  return n;
}

Result<Shape> parse_shape(std::string_view file, std::string_view text) {
  const json whole = json::parse(text, nullptr, false);
  if (!whole.is_object()) return bad_input("{}: no JSON object; a config.json of Hugging Face is expected", file);
  const auto nested = whole.find("text_config");
  const json& inner = nested != whole.end() && nested->is_object() ? *nested : whole;
  Keys keys(file, inner);
  Shape s{.name = keys.word("name"), .source = keys.word("source")};
  if (s.name.empty()) s.name = keys.word("model_type").empty() ? "model" : keys.word("model_type");
  s.hidden = keys.need({"hidden_size", "n_embd"});
  s.vocab = keys.need({"vocab_size"});
  s.longest = keys.find({"max_position_embeddings"}, 131072);
  s.tied = keys.flag("tie_word_embeddings", false);
  const std::int64_t layers = keys.need({"num_hidden_layers", "n_layer"});
  if (layers > 4096) keys.fail(fmt::format("{}: num_hidden_layers {} is no number of layers", file, layers));
  if (!keys.error().empty()) return bad_input("{}", keys.error());
  const LayerKind full = attention_of(keys, s.hidden);
  const json* types = keys.list("layer_types");
  if (types != nullptr && std::ssize(*types) != layers)
    return bad_input("{}: layer_types has {} entries for {} layers", file, types->size(), layers);
  for (std::int64_t l = 0; l < layers && keys.error().empty(); ++l) {
    LayerKind kind = full;
    if (types != nullptr && full.attention != Attention::kLatent && (*types)[static_cast<std::size_t>(l)].is_string())
      kind = of_type(keys, full, (*types)[static_cast<std::size_t>(l)]);
    else if (const std::int64_t window = keys.find({"sliding_window"});
             types == nullptr && window > 0 && keys.flag("use_sliding_window", true))
      kind.window = window;
    add_feed(keys, kind, l);
    const auto known = std::ranges::find_if(s.kinds, [&](LayerKind k) { return k.count = 0, k == kind; });
    if (known != s.kinds.end()) {
      ++known->count;
      continue;
    }
    kind.count = 1;
    s.kinds.push_back(kind);
  }
  if (!keys.error().empty()) return bad_input("{}: {}", file, keys.error());
  if (const std::string key = too_large(s); !key.empty())
    return bad_input("{}: {} is larger than of any model", file, key);
  read_quantisation(whole, inner, s);
  return s;
}

Result<Shape> load_shape(const std::string& model) {
  std::filesystem::path path = model;
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) path /= "config.json";
  if (std::filesystem::is_regular_file(path, none)) {
    WEFT_TRY(const std::string text, read_text_file(path));
    return parse_shape(path.string(), text);
  }
  const std::string asked = plain(model);
  for (const auto& file : embedded::serving_files()) {
    if (!file.path.starts_with(kFolder)) continue;
    const json config = json::parse(file.text, nullptr, false);
    bool found = config.value("name", "") == asked;
    for (const json& also : config.value("also", json::array())) found |= plain(also.get<std::string>()) == asked;
    if (found) return parse_shape(file.path, file.text);
  }
  return bad_input("model {}: neither a config.json nor one of {}", model, fmt::join(shape_names(), ", "));
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const auto& file : embedded::serving_files())
    if (file.path.starts_with(kFolder))
      names.emplace_back(file.path.substr(kFolder.size(), file.path.size() - kFolder.size() - 5));
  std::ranges::sort(names);
  return names;
}

}  // namespace weft::serving
