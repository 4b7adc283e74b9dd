#include "apps/training/model.h"

#include <algorithm>

#include "base/models/model.h"

namespace weft::training {
namespace {

// The sizes of attention: of the first layer that sees all tokens, or of the first that attends.
const models::Layer* attention_of(const models::Model& from) {
  const auto whole = [](const models::Layer& l) { return l.attends() && l.attention.window == 0; };
  if (const auto at = std::ranges::find_if(from.layers, whole); at != from.layers.end()) return &*at;
  const auto any = std::ranges::find_if(from.layers, &models::Layer::attends);
  return any == from.layers.end() ? nullptr : &*any;
}

void set_attention(const models::Model& from, const models::Layer& layer, Model& m) {
  const models::Attention& a = layer.attention;
  m.heads = a.heads;
  m.kv_heads = a.kv_heads;
  m.head_dim = a.head_dim;
  if (layer.mixer == models::Mixer::kLatent) {
    m.q_rank = a.q_rank;
    m.kv_rank = a.kv_rank;
    m.rope_dim = a.rope_dim;
    m.nope_dim = a.nope_dim;
    m.v_dim = a.value_dim;
  }
  m.attention_matrix = from.mixer_parameters(layer);
}

void set_layers(const models::Model& from, Model& m) {
  std::int64_t dense = 0, dense_width = 0, blocks = 0;
  for (const models::Layer& layer : from.layers) {
    m.mixer_total += from.mixer_parameters(layer);
    if (layer.attends()) m.windows.push_back(layer.attention.window);
    if (layer.recurs()) {
      ++m.recurrent_layers;
      m.recurrent_state = layer.recurrent.state;
    }
    m.sparse.push_back(layer.has_experts());
    const models::Feed& f = layer.feed;
    blocks += (layer.attends() || layer.recurs() ? 1 : 0) + (layer.has_experts() || f.width > 0 ? 1 : 0);
    if (layer.has_experts()) {
      m.experts = f.experts;
      m.top_k = f.top_k;
      m.moe_ffn = f.expert_width;
      m.shared_ffn = f.shared_width;
      if (f.latent > 0) m.expert_hidden = f.latent;
    } else {
      ++dense;
      dense_width += f.width;
    }
  }
  m.blocks = static_cast<double>(blocks) / (2 * static_cast<double>(from.layers.size()));
  // The mean width: layers may have MLPs of several widths, or none.
  m.ffn = dense > 0 ? (dense_width + dense / 2) / dense : m.moe_ffn;
}

Result<Model> training_model(std::string_view file, const models::Model& from) {
  Model m;
  m.name = from.name;
  m.source = from.source;
  m.layers = static_cast<std::int64_t>(from.layers.size());
  m.hidden = m.expert_hidden = from.hidden;
  m.vocab = from.vocab;
  m.seq = from.seq;
  m.positions = from.positions;
  m.gated = from.gated;
  m.composed_gelu = from.composed_gelu, m.head_norms = from.head_norms;
  m.tied = from.tied;
  const models::Layer* attention = attention_of(from);
  if (attention == nullptr)
    return bad_input("{}: no layer of this {} attends; training of it is not modelled", file, from.type);
  set_attention(from, *attention, m);
  set_layers(from, m);
  m.not_modelled = from.left_out;
  m.predict_layers = from.predict_layers;
  m.sinks = from.type == "gpt_oss";
  if (attention->attention.index_top_k > 0) m.not_modelled.emplace_back("index_topk");
  return m;
}

}  // namespace

std::int64_t Model::moe_layers() const {
  std::int64_t n = 0;
  for (std::int64_t l = 0; l < layers; ++l) n += moe_layer(l) ? 1 : 0;
  return n;
}

std::int64_t Model::parameters() const {
  const std::int64_t with = moe_layers();
  const std::int64_t expert_layer = experts * expert_parameters() + mlp_parameters(shared_ffn) + router_parameters();
  return mixer_total + (layers - with) * mlp_parameters(ffn) + with * expert_layer + embedding_parameters() +
         output_parameters();
}

std::int64_t Model::active_parameters() const {
  return parameters() - moe_layers() * (experts - top_k) * expert_parameters();
}

double Model::attention_share(std::int64_t sequence) const {
  double sum = 0;
  const auto all = static_cast<double>(sequence);
  for (const std::int64_t window : windows) {
    // Query i sees min(i, w) of i keys: the mean of both over a sequence, divided.
    const double share = window == 0 ? 1 : std::min(1.0, static_cast<double>(window) / all);
    sum += share * (2 - share);
  }
  return sum / static_cast<double>(layers);
}

double Model::projection_share() const {
  return static_cast<double>(mixer_total) / (static_cast<double>(layers) * static_cast<double>(attention_matrix));
}

double Model::flops_per_token(std::int64_t sequence) const {
  const double multiplied = static_cast<double>(active_parameters() - embedding_parameters()) -
                            static_cast<double>(output_parameters()) + static_cast<double>(vocab * hidden);
  return 6 * multiplied + 6.0 * static_cast<double>(layers) * static_cast<double>(sequence) *
                              static_cast<double>(query_width() + value_width()) * attention_share(sequence);
}

Result<Model> parse_model(std::string_view file, std::string_view text) {
  WEFT_TRY(const models::Model model, models::parse_config(file, text));
  return training_model(file, model);
}

Model uniform_model(Model m) {
  m.attention_matrix = m.hidden * (m.query_width() + 2 * m.kv_width()) + m.value_width() * m.hidden;
  m.mixer_total = m.layers * m.attention_matrix;
  m.expert_hidden = m.hidden;
  m.windows.assign(static_cast<std::size_t>(m.layers), 0);
  m.sparse.assign(static_cast<std::size_t>(m.layers), m.moe());
  return m;
}

Result<Model> load_model(const std::string& name) {
  if (const std::string known = models::catalog_name(name); !known.empty()) {
    WEFT_TRY(const models::Model model, models::load(known));
    return training_model(known, model);
  }
  return load_model_file(name);
}

std::vector<std::string> model_names() { return models::catalog_names(); }

}  // namespace weft::training
