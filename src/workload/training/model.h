#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::training {

// A decoder-only transformer. A value. Counts of parameters leave out biases and normalisations.
struct Model {
  std::string name, source;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0, seq = 0;
  std::int64_t positions = 0;  // learned position embeddings; 0: rotary or none
  bool gated = true;           // three matrices in the MLP (SwiGLU) instead of two
  bool tied = false;           // output layer and embedding share their weights
  // Mixture of experts; experts 0: dense.
  std::int64_t experts = 0, top_k = 0, moe_ffn = 0, shared_ffn = 0;
  std::int64_t first_dense = 0;  // layers before the first one with experts
  std::int64_t moe_every = 1;    // then every n-th layer has experts
  // Multi-head latent attention; kv_rank 0: none.
  std::int64_t q_rank = 0, kv_rank = 0, rope_dim = 0, nope_dim = 0, v_dim = 0;
  std::vector<std::string> not_modelled;  // keys of the input that matter and are left out

  bool mla() const { return kv_rank > 0; }
  bool moe() const { return experts > 0; }
  bool moe_layer(std::int64_t layer) const {
    return moe() && layer >= first_dense && (layer - first_dense) % moe_every == 0;
  }
  std::int64_t moe_layers() const;
  // Widths of all heads together: queries and keys, values.
  std::int64_t query_width() const { return mla() ? heads * (nope_dim + rope_dim) : heads * head_dim; }
  std::int64_t value_width() const { return mla() ? heads * v_dim : heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }

  // Of one layer.
  std::int64_t attention_parameters() const;
  std::int64_t mlp_parameters(std::int64_t width) const { return (gated ? 3 : 2) * hidden * width; }
  std::int64_t router_parameters() const { return hidden * experts; }
  std::int64_t embedding_parameters() const { return vocab * hidden + positions * hidden; }
  std::int64_t output_parameters() const { return tied ? 0 : vocab * hidden; }
  // Counts all parameters of the model, and those that a token passes through.
  std::int64_t parameters() const;
  std::int64_t active_parameters() const;
  // 6 × (active parameters without the embedding, with the output layer) + 6 × layers × seq × (query + value width):
  // forward and backward of one token, attention counted without the causal mask, as PaLM's appendix B does.
  double flops_per_token(std::int64_t seq) const;
};

inline constexpr const char* kFlopsFormula = "6 (N_active - embedding) + 6 layers seq (query width + value width)";

// A Hugging Face config.json. Errors (bad input): names the file and the key that is missing or has no sense, or an
// architecture that is not modelled.
Result<Model> parse_model(std::string_view file, std::string_view text);

// A name of the catalogue (data/training/models), or a file or folder with a config.json.
Result<Model> load_model(const std::string& name);
std::vector<std::string> model_names();
Result<Model> load_model_file(const std::string& name);  // a file or folder only

}  // namespace weft::training
