#include "move/kv/model.h"

#include <algorithm>

#include "base/text.h"

namespace weft::kv {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

Result<std::int64_t> element_bytes(const std::string& type, const std::string& where) {
  for (const auto& [name, bytes] :
       std::initializer_list<std::pair<std::string_view, std::int64_t>>{{"float32", 4},
                                                                        {"float16", 2},
                                                                        {"bfloat16", 2},
                                                                        {"float8", 1},
                                                                        {"fp8", 1},
                                                                        {"float8_e4m3fn", 1},
                                                                        {"int8", 1}})
    if (type == name) return bytes;
  return bad_input("{}: unknown type '{}'; there are float32, float16, bfloat16, fp8 and int8", where, shown(type));
}

std::int64_t token_elements(const models::CacheShape& cache) {
  std::int64_t n = cache.token_elements;
  for (const auto& window : cache.windows) n += window.elements;
  return n;
}

}  // namespace

bool ModelShape::mla() const {
  return std::ranges::any_of(model.layers, [](const auto& l) { return l.mixer == models::Mixer::kLatent; });
}

Bytes ModelShape::token_bytes() const { return token_elements(model.cache()) * element_bytes; }

Bytes ModelShape::rank_bytes(std::int64_t tp) const { return token_elements(model.cache(tp)) * element_bytes; }

Bytes ModelShape::index_bytes() const {
  constexpr std::int64_t kScaleBytes = 4;
  Bytes bytes = 0;
  for (const auto& layer : model.layers)
    if (const models::Attention& a = layer.attention; layer.attends() && a.index_dim > 0)
      bytes += (a.index_dim + kScaleBytes) / a.compress;
  return bytes;
}

Bytes ModelShape::sequence_bytes(std::int64_t tokens, std::int64_t tp) const {
  return model.cache(tp).elements(tokens) * element_bytes + index_bytes() * tokens + state_bytes(tp);
}

Result<ModelShape> parse_model(std::string_view text, const std::string& where, const std::string& type) {
  ModelShape shape;
  WEFT_TRY(shape.model, models::parse_config(where, text, models::Need::kCache));
  shape.type = type.empty() ? shape.model.dtype : type;
  WEFT_TRY(shape.element_bytes, element_bytes(shape.type, where));
  return shape;
}

Status check_tp(const ModelShape& shape, std::int64_t tp) {
  if (tp < 1 || tp > kMostRanks) return bad_input("--tp {}: a number of ranks from 1", tp);
  const std::int64_t layer = shape.model.uneven_layer(tp);
  if (layer < 0) return {};
  return bad_input("--tp {}: {} heads of layer {} cannot be spread evenly over {} ranks", tp,
                   shape.model.layers[static_cast<std::size_t>(layer)].attention.kv_heads, layer, tp);
}

}  // namespace weft::kv
