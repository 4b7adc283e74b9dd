#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::training {

// A transformer as a training step sees it: the sizes of its layers, or their mean where layers differ. A value; made
// from models::Model. Counts of parameters leave out biases and normalisations.
struct Model {
  std::string name, source;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0, seq = 0;
  std::int64_t positions = 0;                      // learned position embeddings; 0: rotary or none
  bool gated = true;                               // three matrices in the MLP (SwiGLU) instead of two
  bool composed_gelu = false, head_norms = false;  // see models::Model
  bool tied = false;                               // output layer and embedding share their weights
  // Mixture of experts; experts 0: dense.
  std::int64_t experts = 0, top_k = 0, moe_ffn = 0, shared_ffn = 0;
  std::int64_t expert_hidden = 0;  // width in which the experts work: `hidden`, or a latent one
  std::vector<bool> sparse;        // per layer: it has experts
  // Multi-head latent attention; kv_rank 0: none.
  std::int64_t q_rank = 0, kv_rank = 0, rope_dim = 0, nope_dim = 0, v_dim = 0;
  // Of the matrices that mix tokens, of all layers: attention and recurrent mixers. An attention layer that sees all
  // tokens has `attention_matrix`.
  std::int64_t mixer_total = 0, attention_matrix = 0;
  std::vector<std::int64_t> windows;  // of the layers that attend: tokens that a query sees; 0: all
  double blocks = 1;                  // of a layer's two, mixer and feed: hybrids have layers with one of them
  std::int64_t recurrent_layers = 0;  // layers with linear attention, Mamba, a convolution
  std::int64_t recurrent_state = 0;   // numbers of the state of one of them
  std::int64_t predict_layers = 0;    // of multi-token prediction that the file names; the plan says whether they train
  bool sinks = false;                 // softmax with a learnable sink, which fused kernels learnt late
  std::vector<std::string> not_modelled;  // keys of the input that matter and are left out

  bool mla() const { return kv_rank > 0; }
  bool moe() const { return experts > 0; }
  bool moe_layer(std::int64_t layer) const { return moe() && sparse[static_cast<std::size_t>(layer)]; }
  std::int64_t moe_layers() const;
  // Widths of all heads together: queries and keys, values.
  std::int64_t query_width() const { return mla() ? heads * (nope_dim + rope_dim) : heads * head_dim; }
  std::int64_t value_width() const { return mla() ? heads * v_dim : heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }

  // Of one layer, the mean of all.
  std::int64_t attention_parameters() const { return mixer_total / layers; }
  std::int64_t mlp_parameters(std::int64_t width) const { return (gated ? 3 : 2) * hidden * width; }
  std::int64_t expert_parameters() const { return (gated ? 3 : 2) * expert_hidden * moe_ffn; }
  std::int64_t router_parameters() const {
    return hidden * experts + (expert_hidden != hidden ? 2 * hidden * expert_hidden : 0);
  }
  std::int64_t embedding_parameters() const { return vocab * hidden + positions * hidden; }
  std::int64_t output_parameters() const { return tied ? 0 : vocab * hidden; }
  // Counts all parameters of the model, and those that a token passes through.
  std::int64_t parameters() const;
  std::int64_t active_parameters() const;
  // Scores that a layer computes for a sequence, the mean of all layers, as a share of those of full causal attention:
  // windows and recurrent layers compute fewer.
  double attention_share(std::int64_t seq) const;
  // GEMMs of the mean mixer as a multiple of those of an attention layer.
  double projection_share() const;
  // 6 × (active parameters without the embedding, with the output layer) + 6 × layers × seq × (query + value width):
  // forward and backward of one token, attention counted without the causal mask, as PaLM's appendix B does; of
  // windows and recurrent layers, attention_share() of it.
  double flops_per_token(std::int64_t seq) const;
};

// The model whose layers are all alike, from the sizes of one layer with attention by heads (no latent vectors, no
// windows); every layer has experts where there are some.
Model uniform_model(Model sizes);

inline constexpr const char* kFlopsFormula =
    "6 (N_active - embedding) + 6 layers seq (query width + value width) attention share";

// A Hugging Face config.json, read by models::parse_config. Errors (bad input): names the file and the key that is
// missing or has no sense, or an architecture that is not modelled.
Result<Model> parse_model(std::string_view file, std::string_view text);

// A name of the catalogue (data/models/catalog), or what it is called elsewhere (models::catalog_name), or a file or
// folder with a config.json.
Result<Model> load_model(const std::string& name);
std::vector<std::string> model_names();
Result<Model> load_model_file(const std::string& name);  // a file or folder only

}  // namespace weft::training
