#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::models {

// How a layer mixes tokens.
enum class Mixer : std::uint8_t {
  kNone,       // no mixer: a layer with an MLP or experts only
  kAttention,  // softmax attention with heads of keys and values
  kLatent,     // multi-head latent attention (MLA)
  kRecurrent,  // linear attention, Mamba, short convolution: a state of fixed size per sequence
  kParallel,   // attention and a recurrent mixer side by side (Falcon-H1)
};

// Counts of one attention. Parameters leave out biases and norms.
struct Attention {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  std::int64_t window = 0;      // tokens that a query sees at most; 0: all
  std::int64_t compress = 1;    // the cache keeps one entry per N tokens of this number, besides those of the window
  bool output_gate = false;     // as many gate values as query values, from the same input
  bool one_tensor = false;      // keys serve as values: one projection, cached once (DeepSeek-V4)
  bool one_projection = false;  // values are the keys before their rotation: one projection, both cached (Gemma 4)
  bool cached = true;           // false: reads the cache of an earlier layer
  // Latent: ranks of the compressed queries (0: not compressed) and keys, and the dimensions of a head.
  std::int64_t q_rank = 0, kv_rank = 0, rope_dim = 0, nope_dim = 0;
  // Output projection in groups through a rank; 0: one matrix.
  std::int64_t out_rank = 0, out_groups = 0;
  // Queries and outputs are projected by `top_k` of `experts`, which share keys and values (JetMoE); 0: by all.
  std::int64_t experts = 0, top_k = 0;
  // Sparse attention's indexer (DeepSeek Sparse Attention): its heads read one cached key per token.
  std::int64_t index_heads = 0, index_dim = 0, index_top_k = 0;

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t value_width() const { return heads * value_dim; }
};

// A recurrent mixer.
struct Recurrent {
  std::string kind;              // "gated delta net", "Mamba", "Mamba 2", "lightning attention", "convolution", …
  std::int64_t parameters = 0;   // of its matrices
  std::int64_t state = 0;        // numbers kept per sequence between tokens
  std::int64_t convolution = 0;  // inputs of the short convolution kept per sequence
  // What is mixed: keys and queries (B and C of Mamba 2, whose groups are the key heads; 0 in Mamba and convolutions),
  // values (heads of its state), and the length of the short convolution over both (0: none).
  std::int64_t key_heads = 0, key_dim = 0, value_heads = 0, value_dim = 0, kernel = 0;

  std::int64_t value_width() const { return value_heads * value_dim; }
  // Queries, keys and values: what the convolution runs over.
  std::int64_t mixed_width() const { return 2 * key_heads * key_dim + value_width(); }
  bool operator==(const Recurrent&) const = default;
};

// The part of a layer that works on each token alone: a dense MLP, or a router with experts and shared experts.
struct Feed {
  std::int64_t width = 0;               // of the dense MLP; 0: none
  std::int64_t experts = 0, top_k = 0;  // 0: no experts
  std::int64_t expert_width = 0;        // of one expert
  std::int64_t shared_width = 0;        // of all shared experts together, or of an MLP beside the experts
  std::int64_t latent = 0;              // width in which the experts work; 0: the model's
};

struct Layer {
  Mixer mixer = Mixer::kNone;
  Attention attention;
  Recurrent recurrent;
  Feed feed;
  // Parameters of matrices besides: one that replaces attention (Nemotron-NAS), compressors of the cache (DeepSeek-V4).
  std::int64_t more_parameters = 0;

  bool attends() const { return mixer == Mixer::kAttention || mixer == Mixer::kLatent || mixer == Mixer::kParallel; }
  bool recurs() const { return mixer == Mixer::kRecurrent || mixer == Mixer::kParallel; }
  bool has_experts() const { return feed.experts > 0; }
};

// What a cache of keys and values takes on one rank, in elements of the cache's type.
struct CacheShape {
  // Layers that keep the last tokens only.
  struct Window {
    std::int64_t tokens = 0, layers = 0;
    std::int64_t elements = 0;  // per token within the window, of all these layers
  };
  std::int64_t growing_layers = 0;    // layers whose cache grows with every token
  std::int64_t recurrent_layers = 0;  // layers with a state of fixed size
  std::int64_t token_elements = 0;    // per token, of layers that grow; compressed ones by their share
  std::int64_t index_elements = 0;    // per token, keys of sparse attention's indexers, of one byte each in engines
  std::int64_t state_elements = 0;    // per sequence, states of recurrent layers
  std::vector<Window> windows;        // by length

  std::int64_t window_layers() const;
  // Keys and values of one sequence of `tokens` tokens, without indexers and states.
  std::int64_t elements(std::int64_t tokens) const;
};

// A decoder-only transformer, or a hybrid with recurrent layers, layer by layer. A value.
struct Model {
  std::string name, source, type;  // type: model_type of its config.json
  std::string dtype;               // of the weights, e.g. "bfloat16"
  // How the file's weights are quantised: "fp8", "fp8_block" (a scale per block), "mxfp4", "nvfp4", "int4" (activations
  // of 16 bits), "int8" (both), "w8a16" (weights of 8 bits alone); empty: not, or by a method that is not modelled.
  std::string quantization;
  std::string quantization_unknown;    // of a method that is not modelled: a sentence that names file, key and value
  bool attention_unquantized = false;  // … but for the projections of attention
  std::int64_t hidden = 0, vocab = 0;
  std::int64_t seq = 0;             // longest sequence that the file names
  std::int64_t context = 0;         // that an engine allows: `seq` with rotary scaling; 0: the file names none
  std::int64_t positions = 0;       // learned position embeddings; 0: rotary or none
  std::int64_t embedding = 0;       // width of the embedding, where it is not `hidden`; 0: it is
  bool head_norms = false;          // queries and keys are normalised before they meet
  bool composed_gelu = false;       // GPT-2's gelu_new, which transformers composes of eight operations
  bool gated = true;                // three matrices in an MLP (SwiGLU) instead of two
  bool tied = false;                // output layer and embedding share their weights
  std::int64_t predict_layers = 0;  // layers of multi-token prediction; their parameters are not counted
  std::vector<Layer> layers;
  std::vector<std::string> left_out;  // parts of the file that are not modelled, e.g. "vision_config"

  std::int64_t mixer_parameters(const Layer& layer) const;
  // The same, of the experts of attention that one token passes through.
  std::int64_t active_mixer_parameters(const Layer& layer) const;
  std::int64_t mlp_parameters(std::int64_t width) const { return (gated ? 3 : 2) * hidden * width; }
  // All experts, shared ones and the router; or the dense MLP.
  std::int64_t feed_parameters(const Layer& layer) const;
  // The same, of the experts that one token passes through.
  std::int64_t active_feed_parameters(const Layer& layer) const;
  std::int64_t embedding_parameters() const;
  std::int64_t output_parameters() const;
  // All parameters without biases, norms, multi-token prediction and towers of other modalities.
  std::int64_t parameters() const;
  std::int64_t active_parameters() const;
  // On one of `tp` ranks: heads of keys and values are spread, and kept several times where there are fewer heads than
  // ranks; latent vectors are kept by every rank.
  CacheShape cache(std::int64_t tp = 1) const;
  // The layer whose heads of keys and values cannot be spread evenly over `tp` ranks, or -1.
  std::int64_t uneven_layer(std::int64_t tp) const;
};

// What a file must say: all of a model, or only what decides its cache of keys and values.
enum class Need : std::uint8_t { kModel, kCache };

// A Hugging Face config.json, by its model_type (data/models/families.json). `Infinity` and `NaN` are read as Python
// reads them. Errors (bad input): names the file and the key that is missing or has no sense, or a model_type that is
// no decoder or is not modelled.
Result<Model> parse_config(std::string_view file, std::string_view text, Need need = Need::kModel);

// Models of the catalogue (data/models/catalog), sorted.
std::vector<std::string> catalog_names();
// The catalogue's name of a model that is called `name` elsewhere, e.g. "meta-llama/Llama-3.1-8B-Instruct": without
// the owner, case, punctuation and words that say how weights were tuned or stored. Empty: there is none.
std::string catalog_name(std::string_view name);
// Up to three names of the catalogue that a misspelt `name` may mean.
std::vector<std::string> nearest_names(std::string_view name);
// Errors (bad input): no such model; names the nearest.
Result<Model> load(std::string_view name);

// A config.json: where it is and what it says.
struct Config {
  std::string file, text;
};
// A file, a folder with a config.json, or a name of the catalogue. Errors (bad input): none of them, with the nearest
// names; those of reading.
Result<Config> config_of(const std::string& model);

// model_types that data/models/families.json describes, sorted.
std::vector<std::string> family_types();

}  // namespace weft::models
