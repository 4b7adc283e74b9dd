#include "base/models/model.h"

#include <algorithm>

namespace weft::models {
namespace {

std::int64_t attention_parameters(std::int64_t hidden, const Attention& a, bool latent) {
  const std::int64_t q = a.query_width(), v = a.value_width();
  if (a.experts > 0)  // of all, what `top_k` of them compute; keys and values; the router
    return (hidden * q + v * hidden) / a.top_k * a.experts + hidden * a.kv_heads * (a.head_dim + a.value_dim) +
           hidden * a.experts;
  const std::int64_t queries = a.q_rank > 0 ? hidden * a.q_rank + a.q_rank * q : hidden * q;
  const std::int64_t gate = a.output_gate ? hidden * (latent ? v : q) : 0;
  const std::int64_t out =
      a.out_rank > 0 ? v / a.out_groups * a.out_groups * a.out_rank + a.out_groups * a.out_rank * hidden : v * hidden;
  // The indexer's queries come from the compressed queries where there are some; one key and a weight per head.
  const std::int64_t index = a.index_heads * a.index_dim * (a.q_rank > 0 ? a.q_rank : hidden) +
                             (a.index_dim + a.index_heads) * (a.index_heads > 0 ? hidden : 0);
  std::int64_t keys = 0;
  if (latent)
    keys = hidden * (a.kv_rank + a.rope_dim) + a.kv_rank * a.heads * (a.nope_dim + a.value_dim);
  else
    keys = hidden * a.kv_heads * (a.one_tensor || a.one_projection ? a.head_dim : a.head_dim + a.value_dim);
  return queries + gate + keys + out + index;
}

}  // namespace

std::int64_t Model::mixer_parameters(const Layer& layer) const {
  std::int64_t n = layer.more_parameters;
  if (layer.attends()) n += attention_parameters(hidden, layer.attention, layer.mixer == Mixer::kLatent);
  if (layer.recurs()) n += layer.recurrent.parameters;
  return n;
}

std::int64_t Model::active_mixer_parameters(const Layer& layer) const {
  const Attention& a = layer.attention;
  const std::int64_t idle = layer.attends() ? a.experts - a.top_k : 0;
  return mixer_parameters(layer) - (idle > 0 ? hidden * (a.query_width() + a.value_width()) / a.top_k * idle : 0);
}

std::int64_t Model::feed_parameters(const Layer& layer) const {
  const Feed& f = layer.feed;
  if (f.experts == 0) return mlp_parameters(f.width);
  const std::int64_t within = f.latent > 0 ? f.latent : hidden;
  const std::int64_t each = (gated ? 3 : 2) * within * f.expert_width;
  const std::int64_t to_latent = f.latent > 0 ? 2 * hidden * f.latent : 0;
  return f.experts * each + mlp_parameters(f.shared_width) + hidden * f.experts + to_latent;
}

std::int64_t Model::active_feed_parameters(const Layer& layer) const {
  const Feed& f = layer.feed;
  if (f.experts == 0) return mlp_parameters(f.width);
  const std::int64_t within = f.latent > 0 ? f.latent : hidden;
  return feed_parameters(layer) - (f.experts - f.top_k) * (gated ? 3 : 2) * within * f.expert_width;
}

std::int64_t Model::embedding_parameters() const {
  // A narrower embedding is projected to the model's width and back (OPT).
  const std::int64_t width = embedding > 0 ? embedding : hidden;
  return vocab * width + positions * hidden + (embedding > 0 ? 2 * embedding * hidden : 0);
}

std::int64_t Model::output_parameters() const { return tied ? 0 : vocab * hidden; }

std::int64_t Model::parameters() const {
  std::int64_t n = embedding_parameters() + output_parameters();
  for (const Layer& layer : layers) n += mixer_parameters(layer) + feed_parameters(layer);
  return n;
}

std::int64_t Model::active_parameters() const {
  std::int64_t n = embedding_parameters() + output_parameters();
  for (const Layer& layer : layers) n += active_mixer_parameters(layer) + active_feed_parameters(layer);
  return n;
}

std::int64_t CacheShape::window_layers() const {
  std::int64_t n = 0;
  for (const Window& w : windows) n += w.layers;
  return n;
}

std::int64_t CacheShape::elements(std::int64_t tokens) const {
  std::int64_t n = token_elements * tokens;
  for (const Window& w : windows) n += w.elements * std::min(tokens, w.tokens);
  return n;
}

CacheShape Model::cache(std::int64_t tp) const {
  CacheShape shape;
  for (const Layer& layer : layers) {
    if (layer.recurs()) {
      ++shape.recurrent_layers;
      shape.state_elements += (layer.recurrent.state + layer.recurrent.convolution + tp - 1) / tp;
    }
    const Attention& a = layer.attention;
    if (!layer.attends() || !a.cached) continue;
    const std::int64_t heads = std::max<std::int64_t>(1, a.kv_heads / tp);
    const std::int64_t each = layer.mixer == Mixer::kLatent ? a.kv_rank + a.rope_dim
                              : a.one_tensor                ? heads * a.head_dim
                                                            : heads * (a.head_dim + a.value_dim);
    if (a.window > 0) {
      auto at = std::ranges::find(shape.windows, a.window, &CacheShape::Window::tokens);
      if (at == shape.windows.end()) at = shape.windows.insert(at, {.tokens = a.window});
      ++at->layers;
      at->elements += each;
    }
    if (a.window == 0 || a.compress > 1) {
      ++shape.growing_layers;
      shape.token_elements += each / a.compress;
      if (a.index_dim > 0) shape.index_elements += a.index_dim / a.compress;
    }
  }
  std::ranges::sort(shape.windows, {}, &CacheShape::Window::tokens);
  return shape;
}

std::int64_t Model::uneven_layer(std::int64_t tp) const {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::int64_t heads = layers[l].attention.kv_heads;
    if (layers[l].attends() && layers[l].mixer != Mixer::kLatent && heads % tp != 0 && tp % heads != 0)
      return static_cast<std::int64_t>(l);
  }
  return -1;
}

}  // namespace weft::models
