#include <algorithm>
#include <array>

#include "base/job_text.h"
#include "base/json_text.h"
#include "base/models/files.h"
#include "base/models/keys.h"
#include "base/models/layers.h"
#include "base/models/model.h"
#include "base/models/quantization.h"
#include "base/text.h"

namespace weft::models {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostLayers = 4096;
constexpr double kMostParameters = 1e15;

const json& families() {
  static const json all = json::parse(embedded::model_files().front().text);
  return all;
}

// Models of several modalities keep the language model in a section of its own.
const json& language_model(const json& whole) {
  for (const char* path : {"/text_config", "/llm_config", "/language_config", "/thinker_config/text_config"}) {
    const json::json_pointer at(path);
    if (whole.contains(at) && whole[at].is_object()) return whole[at];
  }
  return whole;
}

Attention read_attention(Keys& keys) {
  Attention a;
  a.kv_rank = keys.count_or({"kv_lora_rank"}, 0);
  const std::initializer_list<const char*> heads = {"num_attention_heads", "n_head", "n_heads", "num_heads"};
  if (keys.flag("attention_experts", false)) {  // JetMoE: each of the chosen experts has a query per key
    a.experts = keys.need({"num_local_experts", "moe_num_experts"});
    a.top_k = keys.need({"num_experts_per_tok", "moe_top_k"});
    a.kv_heads = keys.need({"num_key_value_heads", "num_attention_heads"});
    a.head_dim = a.value_dim = keys.need({"kv_channels", "head_dim"});
    a.heads = a.kv_heads * a.top_k;
    if (a.top_k > a.experts)
      keys.fail(fmt::format("{}: {} experts per token, but there are {}", keys.file(), a.top_k, a.experts));
    return a;
  }
  a.heads = std::max<std::int64_t>(1, a.kv_rank > 0 ? keys.need_of_model(heads) : keys.need(heads));
  if (keys.flag("multi_query", false) && !keys.flag("new_decoder_architecture", false))
    a.kv_heads = 1;
  else
    a.kv_heads = keys.count_or({"num_key_value_heads", "num_query_groups", "multi_query_group_num", "num_kv_heads",
                                "n_head_kv", "attn_config.kv_n_heads"},
                               a.heads);
  if (a.kv_heads == 0) keys.fail(fmt::format("{}: num_key_value_heads: 0 is no count from 1", keys.file()));
  if (a.kv_heads == 0 || (keys.has("multi_query_attention") && !keys.flag("multi_query_attention", true)))
    a.kv_heads = a.heads;
  if (const auto width = keys.count({"head_dim", "kv_channels", "attention_head_dim"}); width && *width > 0) {
    a.head_dim = *width;
  } else if (a.kv_rank == 0) {
    const std::int64_t hidden = keys.need({"hidden_size", "n_embd", "d_model", "n_embed"});
    a.head_dim = hidden / a.heads;
    if (hidden % a.heads != 0)
      keys.fail(fmt::format("{}: hidden_size {} is no multiple of {} heads", keys.file(), hidden, a.heads));
  }
  a.value_dim = a.head_dim;
  a.output_gate = keys.flag("attn_output_gate", false) || keys.flag("mla_use_output_gate", false);
  a.q_rank = keys.count_or({"q_lora_rank"}, 0);
  if (a.kv_rank > 0) {
    a.rope_dim = keys.need({"qk_rope_head_dim"});
    a.nope_dim = keys.need_of_model({"qk_nope_head_dim"});
    a.value_dim = keys.need_of_model({"v_head_dim"});
    a.head_dim = a.nope_dim + a.rope_dim;
  } else if (a.kv_heads > 0 && a.heads % a.kv_heads != 0) {
    keys.fail(fmt::format("{}: {} attention heads are no multiple of num_key_value_heads {}", keys.file(), a.heads,
                          a.kv_heads));
  }
  if (a.kv_rank == 0) a.value_dim = keys.count_or({"v_head_dim"}, a.value_dim);
  a.out_rank = keys.count_or({"o_lora_rank"}, 0);
  a.out_groups = keys.count_or({"o_groups"}, 1);
  if (keys.has("index_topk")) {
    a.index_heads = keys.need({"index_n_heads"});
    a.index_dim = keys.need({"index_head_dim"});
    a.index_top_k = keys.need({"index_topk"});
  }
  return a;
}

std::int64_t read_ffn(Keys& keys, const Family& family, const Model& model) {
  if (family.hybrid == "mamba1_only" || family.hybrid == "mamba2_only" || keys.has("block_configs")) return 0;
  std::int64_t ffn = 0;
  if (const auto value =
          keys.count({"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "block_ff_dim", "mlp_hidden_size"}))
    ffn = *value;
  else if (const auto times = keys.count({"expansion_ratio", "mlp_ratio"}))
    ffn = *times * model.hidden;
  else if (!model.gated)
    ffn = 4 * model.hidden;  // what GPT-2 and its successors take
  else if (!keys.has("moe_intermediate_size") && !keys.has("ffn_config.ffn_hidden_size"))
    ffn = keys.need_of_model({"intermediate_size"});
  if (keys.flag("block_auto_adjust_ff_dim", false)) {  // LFM2: two thirds, rounded up
    const std::int64_t multiple = std::max<std::int64_t>(1, keys.count_or({"block_multiple_of"}, 1));
    ffn = (2 * ffn / 3 + multiple - 1) / multiple * multiple;
  }
  // OLMo's own keys count both halves of its gated MLP.
  const bool halves = model.gated && keys.has("d_model") && keys.has("mlp_ratio");
  return family.half_ffn || halves ? ffn / 2 : ffn;
}

// Whether an MLP has three matrices, where neither the file nor its family says.
bool gated_by_activation(const Keys& keys) {
  const std::string act = keys.word({"hidden_act", "activation_function", "hidden_activation", "mlp_hidden_act"});
  for (const char* plain : {"relu", "relu2", "gelu", "gelu_new", "xielu"})
    if (act == plain) return false;
  return true;
}

std::string hybrid_by_keys(const Keys& keys) {
  if (!keys.has("layer_types")) return "";
  if (keys.has("linear_num_value_heads")) return "gated_delta_net";
  if (keys.has("linear_num_heads")) return "kimi_delta";
  return keys.has("conv_L_cache") ? "short_convolution" : "";
}

void name_left_out(const json& whole, Keys& keys, Model& model) {
  for (const char* key : {"vision_config", "audio_config", "speech_config", "encoder_layers"})
    if (whole.contains(key) && !whole[key].is_null()) model.left_out.emplace_back(key);
  if (const std::int64_t width = keys.count_or({"hidden_size_per_layer_input"}, 0); width > 0) {
    const auto rows = static_cast<double>(keys.count_or({"vocab_size_per_layer_input"}, model.vocab));
    model.left_out.push_back(
        fmt::format("hidden_size_per_layer_input ({:.3g} billion parameters of embeddings per layer are not counted)",
                    1e-9 * rows * static_cast<double>(width) * static_cast<double>(model.layers.size())));
  }
  if (keys.count_or({"zero_expert_num"}, 0) > 0)
    model.left_out.emplace_back("zero_expert_num (all of a token's experts count as computing ones)");
  if (model.predict_layers > 0) model.left_out.emplace_back("num_nextn_predict_layers");
}

std::int64_t read_layer_count(Keys& keys) {
  if (const auto count = keys.count({"num_hidden_layers", "n_layer", "n_layers", "num_layers"})) return *count;
  if (const std::string pattern = keys.word({"hybrid_override_pattern"}); !pattern.empty())
    return static_cast<std::int64_t>(pattern.size());
  for (const char* list : {"layers_block_type", "layer_types", "block_configs"})
    if (const auto* at = keys.find({list}); at != nullptr && at->is_array())
      return static_cast<std::int64_t>(at->size());
  return keys.need({"num_hidden_layers"});
}

constexpr std::initializer_list<const char*> kLongest = {"max_position_embeddings", "n_positions", "max_seq_len",
                                                         "seq_length", "max_sequence_length"};

// YaRN stretches what the model was trained on, linear and dynamic scaling what the file names; other kinds of scaling
// are within it already.
std::int64_t read_context(Keys& keys) {
  const std::int64_t named = keys.count_or(kLongest, 0);
  const json* scaling = keys.find({"rope_scaling", "rope_parameters"});
  if (scaling == nullptr || !scaling->is_object()) return named;
  const auto number = [&](const char* key) {
    const auto at = scaling->find(key);
    return at != scaling->end() && at->is_number() ? at->get<double>() : 0.0;
  };
  std::string kind;
  for (const char* key : {"rope_type", "type"})
    if (const auto at = scaling->find(key); kind.empty() && at != scaling->end() && at->is_string())
      kind = at->get<std::string>();
  const double factor = number("factor"), trained = number("original_max_position_embeddings");
  if (!(factor >= 1 && factor <= 4096)) return named;
  if (kind == "yarn" && trained > 0) return std::max(named, static_cast<std::int64_t>(std::min(trained, 1e9) * factor));
  if (kind == "linear" || kind == "dynamic") return static_cast<std::int64_t>(static_cast<double>(named) * factor);
  return named;
}

Model read_model(Keys& keys, const Family& family, const std::string& type, const json& description) {
  Model m;
  m.type = type;
  m.name = keys.word({"name"});
  m.source = keys.word({"source"});
  if (m.name.empty()) m.name = type.empty() ? "model" : type;
  m.dtype = keys.word({"torch_dtype", "dtype"});
  if (m.dtype.empty()) m.dtype = "bfloat16";
  m.hidden = keys.need_of_model({"hidden_size", "n_embd", "d_model", "n_embed"});
  m.vocab = keys.has("weight_tying") ? keys.count_or({"embedding_size"}, 0) : 0;  // OLMo pads its vocabulary
  if (m.vocab == 0) m.vocab = keys.need_of_model({"vocab_size", "padded_vocab_size"});
  m.seq = keys.count_or(kLongest, 4096);
  m.context = read_context(keys);
  m.tied = keys.flag("tie_word_embeddings", keys.flag("weight_tying", description.value("tied", false)));
  m.gated = keys.flag("gated_mlp",
                      description.contains("gated") ? description["gated"].get<bool>() : gated_by_activation(keys));
  m.head_norms = description.value("head_norms", false) || keys.flag("use_qk_norm", false);
  m.composed_gelu = keys.word({"activation_function"}) == "gelu_new";
  if (description.value("learned_positions", false)) m.positions = m.seq;
  if (const std::int64_t width = keys.count_or({"word_embed_proj_dim"}, m.hidden); width != m.hidden)
    m.embedding = width;
  m.predict_layers = keys.count_or({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}, 0);
  Shared shared;
  shared.layers = read_layer_count(keys);
  if (shared.layers < 1 || shared.layers > kMostLayers)
    keys.fail(
        fmt::format("{}: num_hidden_layers: {} is no count between 1 and {}", keys.file(), shared.layers, kMostLayers));
  if (keys.error().empty() && family.hybrid != "mamba1_only" && family.hybrid != "mamba2_only")
    shared.attention = read_attention(keys);
  shared.ffn = read_ffn(keys, family, m);
  if (keys.error().empty()) read_layers(keys, family, shared, m);
  return m;
}

}  // namespace

Result<Model> parse_config(std::string_view file, std::string_view text, Need need) {
  WEFT_TRY(const json whole, parse_json(file, without_infinities(text)));
  if (!whole.is_object()) return bad_input("{}: no JSON object; a config.json of Hugging Face is expected", file);
  const json& section = language_model(whole);
  std::string type;
  for (const json* object : {&section, static_cast<const json*>(&whole)})
    if (type.empty() && object->contains("model_type") && (*object)["model_type"].is_string())
      type = (*object)["model_type"].get<std::string>();
  const json& all = families();
  if (const auto refused = all["refused"].find(type); refused != all["refused"].end())
    return bad_input("{}: model_type {} is {}", file, type, refused->get<std::string>());
  const auto known = all["families"].find(type);
  const json description = known != all["families"].end() ? *known : json::object();
  const json defaults = description.value("defaults", json::object());
  Keys keys(file, section, whole, defaults, need);
  Family family{description.value("window", ""), description.value("hybrid", ""), description.value("half_ffn", false),
                description.value("blocks", 1)};
  // A model_type that is not known: its keys say which recurrent layers it has.
  if (known == all["families"].end()) family.hybrid = hybrid_by_keys(keys);
  Model model = read_model(keys, family, type, description);
  if (!keys.error().empty()) return bad_input("{}", keys.error());
  double parameters = 0;
  for (const Layer& layer : model.layers)
    parameters +=
        static_cast<double>(model.mixer_parameters(layer)) + static_cast<double>(model.feed_parameters(layer));
  if (parameters > kMostParameters)
    return bad_input("{}: {:.3g} parameters; at most {:.0e} are counted", file, parameters, kMostParameters);
  read_quantization(file, whole, section, model);
  name_left_out(whole, keys, model);
  if (known == all["families"].end() && !type.empty())
    model.left_out.push_back(
        fmt::format("model_type {} (read as a decoder with {} MLPs)", type, model.gated ? "gated" : "plain"));
  return model;
}

std::vector<std::string> family_types() {
  std::vector<std::string> types;
  for (const auto& [type, description] : families()["families"].items()) types.push_back(type);
  std::ranges::sort(types);
  return types;
}

}  // namespace weft::models
