#include "workload/training/model.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "workload/training/files.h"

namespace weft::training {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostCount = std::int64_t{1} << 32;
constexpr std::string_view kModels = "data/training/models/";

// The keys of one config. The first error is kept.
class Keys {
 public:
  Keys(std::string_view file, const json& object) : file_(file), object_(object) {}

  std::optional<std::int64_t> find(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const auto at = object_.find(name);
      if (at == object_.end() || at->is_null()) continue;
      if (at->is_number_integer() && at->get<std::int64_t>() >= 0 && at->get<std::int64_t>() <= kMostCount)
        return at->get<std::int64_t>();
      fail(fmt::format("{}: {}: {} is no count between 0 and 2^32", file_, name, at->dump()));
      return std::nullopt;
    }
    return std::nullopt;
  }
  std::int64_t need(std::initializer_list<const char*> names) {
    const auto value = find(names);
    if (!value) fail(fmt::format("{}: key {} is missing", file_, *names.begin()));
    if (value == 0) fail(fmt::format("{}: {}: 0 is too few", file_, *names.begin()));
    return value.value_or(1);
  }
  std::string word(const char* name) {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_string() ? at->get<std::string>() : "";
  }
  bool flag(const char* name, bool otherwise) {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_boolean() ? at->get<bool>() : otherwise;
  }
  bool has(const char* name) const { return object_.contains(name) && !object_[name].is_null(); }
  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  std::string file_;
  const json& object_;
  std::string error_;
};

void read_experts(Keys& keys, Model& m) {
  m.experts = keys.find({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}).value_or(0);
  if (m.experts == 0) return;
  m.top_k = keys.need({"num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_k"});
  m.moe_ffn = keys.find({"moe_intermediate_size", "expert_ffn_hidden_size"}).value_or(m.ffn);
  m.first_dense = keys.find({"first_k_dense_replace"}).value_or(0);
  m.moe_every = std::max<std::int64_t>(
      1, keys.find({"moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step"}).value_or(1));
  const std::int64_t shared = keys.find({"n_shared_experts", "num_shared_experts"}).value_or(0);
  m.shared_ffn = keys.find({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"})
                     .value_or(shared * m.moe_ffn);
  if (m.top_k > m.experts)
    keys.fail(fmt::format("{}: {} experts per token, but there are {}", m.name, m.top_k, m.experts));
}

void read_latent_attention(Keys& keys, Model& m) {
  m.kv_rank = keys.find({"kv_lora_rank"}).value_or(0);
  if (m.kv_rank == 0) return;
  m.q_rank = keys.find({"q_lora_rank"}).value_or(0);
  m.rope_dim = keys.need({"qk_rope_head_dim"});
  m.nope_dim = keys.need({"qk_nope_head_dim"});
  m.v_dim = keys.need({"v_head_dim"});
}

// Keys that change the time of a step and that the model does not know.
constexpr std::array kLeftOut = {"sliding_window",
                                 "num_nextn_predict_layers",
                                 "layer_types",
                                 "hybrid_override_pattern",
                                 "linear_num_value_heads",
                                 "attention_chunk_size",
                                 "block_sparse_attention",
                                 "vision_config",
                                 "encoder_layers",
                                 "index_topk"};

Model model_of(Keys& keys) {
  Model m;
  m.name = keys.word("name");
  m.source = keys.word("source");
  const std::string type = keys.word("model_type");
  if (m.name.empty()) m.name = type.empty() ? "model" : type;
  for (const char* other : {"bert", "t5", "mamba", "mamba2", "rwkv", "vit", "whisper", "nemotron_h", "jamba", "bamba"})
    if (type == other) keys.fail(fmt::format("{}: model_type: {} is no decoder-only transformer", m.name, type));
  m.layers = keys.need({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  m.hidden = keys.need({"hidden_size", "n_embd", "d_model"});
  m.heads = keys.need({"num_attention_heads", "n_head", "n_heads"});
  m.kv_heads = keys.find({"num_key_value_heads", "num_query_groups"}).value_or(m.heads);
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  m.vocab = keys.need({"vocab_size"});
  m.head_dim = keys.find({"head_dim"}).value_or(m.hidden / m.heads);
  const bool gpt = type == "gpt2" || type == "gpt" || type == "mpt" || type == "bloom";
  if (gpt)
    m.ffn = keys.find({"intermediate_size", "n_inner", "ffn_hidden_size"}).value_or(4 * m.hidden);
  else if (keys.has("moe_intermediate_size"))
    m.ffn = keys.find({"intermediate_size", "moe_intermediate_size"}).value_or(0);
  else
    m.ffn = keys.need({"intermediate_size", "ffn_hidden_size"});
  const std::string act = keys.word("hidden_act");
  m.gated = keys.flag("gated_mlp", !gpt && act != "relu2" && act != "gelu" && act != "gelu_new" && act != "relu");
  m.tied = keys.flag("tie_word_embeddings", gpt);
  m.seq = keys.find({"max_position_embeddings", "n_positions", "max_seq_len"}).value_or(4096);
  if (type == "gpt2" || type == "gpt") m.positions = m.seq;
  read_latent_attention(keys, m);
  read_experts(keys, m);
  if (!m.mla() && m.heads % m.kv_heads != 0)
    keys.fail(fmt::format("{}: num_key_value_heads: {} does not divide {} heads", m.name, m.kv_heads, m.heads));
  for (const char* key : kLeftOut)
    if (keys.has(key)) m.not_modelled.emplace_back(key);
  return m;
}

}  // namespace

std::int64_t Model::moe_layers() const {
  std::int64_t n = 0;
  for (std::int64_t l = 0; l < layers; ++l) n += moe_layer(l) ? 1 : 0;
  return n;
}

std::int64_t Model::attention_parameters() const {
  if (!mla()) return hidden * (query_width() + 2 * kv_width()) + value_width() * hidden;
  const std::int64_t queries = q_rank > 0 ? hidden * q_rank + q_rank * query_width() : hidden * query_width();
  return queries + hidden * (kv_rank + rope_dim) + kv_rank * heads * (nope_dim + v_dim) + value_width() * hidden;
}

std::int64_t Model::parameters() const {
  const std::int64_t with = moe_layers();
  const std::int64_t expert_layer =
      experts * mlp_parameters(moe_ffn) + mlp_parameters(shared_ffn) + router_parameters();
  return layers * attention_parameters() + (layers - with) * mlp_parameters(ffn) + with * expert_layer +
         embedding_parameters() + output_parameters();
}

std::int64_t Model::active_parameters() const {
  return parameters() - moe_layers() * (experts - top_k) * mlp_parameters(moe_ffn);
}

double Model::flops_per_token(std::int64_t sequence) const {
  const double multiplied = static_cast<double>(active_parameters() - embedding_parameters()) -
                            static_cast<double>(output_parameters()) + static_cast<double>(vocab * hidden);
  return 6 * multiplied + 6.0 * static_cast<double>(layers) * static_cast<double>(sequence) *
                              static_cast<double>(query_width() + value_width());
}

Result<Model> parse_model(std::string_view file, std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return bad_input("{}: no JSON object; a config.json of Hugging Face is expected", file);
  // Multimodal configs keep the language model below text_config.
  const json& inner =
      object.contains("text_config") && object["text_config"].is_object() ? object["text_config"] : object;
  Keys keys(file, inner);
  Model model = model_of(keys);
  if (!keys.error().empty()) return bad_input("{}", keys.error());
  if (&inner != &object) model.not_modelled.emplace_back("all beside text_config");
  return model;
}

Result<Model> load_model(const std::string& name) {
  for (const auto& file : embedded::training_files())
    if (file.path == fmt::format("{}{}.json", kModels, name)) return parse_model(file.path, file.text);
  return load_model_file(name);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& file : embedded::training_files())
    if (file.path.starts_with(kModels) && file.path.ends_with(".json"))
      names.emplace_back(file.path.substr(kModels.size(), file.path.size() - kModels.size() - 5));
  std::ranges::sort(names);
  return names;
}

}  // namespace weft::training
