#include "apps/serving/shape.h"

#include <algorithm>

#include "base/models/quantization.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::serving {
namespace {

void add_attention(const models::Layer& layer, LayerKind& k) {
  const models::Attention& a = layer.attention;
  k.attention = layer.mixer == models::Mixer::kLatent ? Attention::kLatent : Attention::kHeads;
  k.heads = a.heads, k.kv_heads = a.kv_heads, k.head_dim = a.head_dim, k.value_dim = a.value_dim;
  k.window = a.window, k.compress = a.compress, k.cached = a.cached;
  k.output_gate = a.output_gate, k.one_tensor = a.one_tensor, k.one_projection = a.one_projection;
  k.q_rank = a.q_rank, k.out_rank = a.out_rank, k.out_groups = a.out_groups;
  if (k.attention == Attention::kLatent) k.kv_rank = a.kv_rank, k.rope_dim = a.rope_dim, k.nope_dim = a.nope_dim;
  if (a.index_heads > 0) k.index_heads = a.index_heads, k.index_dim = a.index_dim, k.index_top_k = a.index_top_k;
}

LayerKind kind_of(const models::Model& model, const models::Layer& layer) {
  LayerKind k;
  if (layer.attends()) add_attention(layer, k);
  k.recurs = layer.recurs();
  if (k.recurs) k.recurrent = layer.recurrent;
  k.more_parameters = layer.more_parameters;
  k.mixer_parameters = model.mixer_parameters(layer);
  const models::Feed& f = layer.feed;
  if (f.experts == 0) {
    k.ffn = f.width;
    return k;
  }
  k.experts = f.experts, k.top_k = f.top_k, k.expert_ffn = f.expert_width, k.shared_ffn = f.shared_width;
  k.expert_hidden = f.latent;
  return k;
}

}  // namespace

std::int64_t LayerKind::recurrent_inputs(std::int64_t hidden) const {
  const std::int64_t projections = recurrent.parameters - recurrent.kernel * recurrent.mixed_width();
  return std::max<std::int64_t>(0, projections / std::max<std::int64_t>(1, hidden) - recurrent.value_width());
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
  for (const LayerKind& k : kinds) most = std::max(most, k.heads);
  return most;
}
std::int64_t Shape::kv_heads() const {
  std::int64_t most = 0;
  for (const LayerKind& k : kinds)
    if (k.attention == Attention::kHeads) most = std::max(most, k.kv_heads);
  return most;
}

Shape shape_of(const models::Model& model) {
  Shape s{.name = model.name, .source = model.source, .hidden = model.hidden, .vocab = model.vocab};
  s.longest = model.context;
  s.matrices = model.gated ? 3 : 2;
  s.outer_parameters = model.embedding_parameters() + model.output_parameters();
  s.parameters = model.parameters();
  s.active_parameters = model.active_parameters();
  s.quantised = model.quantization;
  s.not_modelled = model.quantization_unknown;
  s.attention_unquantised = model.attention_unquantized;
  for (const models::Layer& layer : model.layers) {
    LayerKind kind = kind_of(model, layer);
    const auto known = std::ranges::find_if(s.kinds, [&](const LayerKind& k) {
      kind.count = k.count;
      return k == kind;
    });
    if (known != s.kinds.end()) {
      ++known->count;
      continue;
    }
    kind.count = 1;
    s.kinds.push_back(kind);
  }
  return s;
}

Result<Shape> parse_shape(std::string_view file, std::string_view text) {
  WEFT_TRY(const models::Model model, models::parse_config(file, text));
  return shape_of(model);
}

Result<Shape> load_shape(const std::string& model) {
  WEFT_TRY(const models::Config config, models::config_of(model));
  WEFT_TRY(Shape shape, parse_shape(config.file, config.text));
  if (file_exists(model)) return shape;
  // A name of published weights that says their type has them, not those of the catalogue's file.
  const std::string said = models::quantization_of_name(model);
  if (said == "bf16")
    shape.quantised.clear();
  else if (said != "fp8" && !said.empty())
    shape.quantised = said;
  else if (said == "fp8" && shape.quantised != "fp8_block")
    shape.quantised = shape.experts() ? "fp8_block" : said;
  return shape;
}

}  // namespace weft::serving
