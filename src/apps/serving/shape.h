#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/models/model.h"
#include "base/result.h"

namespace weft::serving {

enum class Attention : std::uint8_t { kNone, kHeads, kLatent };

// Layers of a model that are alike: what one of them computes and keeps. Counts of elements.
struct LayerKind {
  std::int64_t count = 0;
  Attention attention = Attention::kNone;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  std::int64_t window = 0;                               // tokens that a query sees at most; 0: all
  std::int64_t compress = 1;                             // beyond the window a query sees one entry per N tokens
  bool output_gate = false;                              // as many gates as query values
  bool one_tensor = false;                               // keys serve as values, cached once
  bool one_projection = false;                           // values are projected with the keys, both cached
  bool cached = true;                                    // false: reads the cache of an earlier layer
  std::int64_t q_rank = 0;                               // of compressed queries; 0: not compressed
  std::int64_t out_rank = 0, out_groups = 0;             // output projection in groups; 0: one matrix
  std::int64_t kv_rank = 0, rope_dim = 0, nope_dim = 0;  // latent attention
  std::int64_t index_heads = 0, index_dim = 0, index_top_k = 0;  // sparse attention: keys that a query sees
  models::Recurrent recurrent;                                   // beside attention or instead of it
  bool recurs = false;                                           // … and whether there is one
  std::int64_t more_parameters = 0;                              // other matrices on every token
  std::int64_t mixer_parameters = 0;                             // of all of these
  std::int64_t ffn = 0;                                          // of a dense MLP
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0;
  std::int64_t expert_hidden = 0;  // width in which experts work, if not the model's; 0: the model's

  bool mixes() const { return attention != Attention::kNone || recurs || more_parameters > 0; }
  bool feeds() const { return ffn > 0 || experts > 0; }
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t value_width() const { return heads * value_dim; }
  // Elements that one entry of a head of keys and values takes in the cache.
  std::int64_t entry_elements() const { return one_tensor ? head_dim : head_dim + value_dim; }
  // Outputs of a recurrent mixer's projections of its input, which has `hidden` elements.
  std::int64_t recurrent_inputs(std::int64_t hidden) const;
  // Numbers that a recurrent mixer keeps per sequence whatever its length, of 4 bytes each.
  std::int64_t state_elements() const { return recurs ? recurrent.state + recurrent.convolution : 0; }
  bool operator==(const LayerKind&) const = default;
};

// A model as engines serve it. A value.
struct Shape {
  std::string name, source;
  std::int64_t hidden = 0, vocab = 0;
  std::int64_t longest = 0;            // tokens of a request; 0: the file does not say
  std::int64_t matrices = 3;           // of an MLP or expert: 3 with a gate, else 2
  std::int64_t outer_parameters = 0;   // of the embedding and the output layer
  std::int64_t active_parameters = 0;  // that a token passes through
  std::int64_t parameters = 0;         // all, without biases and norms
  std::vector<LayerKind> kinds;
  // How the file's own weights are quantised: "", "fp8", "fp8_block", "mxfp4", "int4", "nvfp4", "int8", "w8a16".
  std::string quantised;
  std::string not_modelled;            // why it is not known: a sentence; empty: it is
  bool attention_unquantised = false;  // … but for attention's projections

  std::int64_t layers() const;
  bool experts() const;
  bool latent() const;
  // Of attention, in the layer that has most; 0: no layer attends.
  std::int64_t heads() const;
  std::int64_t kv_heads() const;
};

// Layers that are alike are put together.
Shape shape_of(const models::Model& model);
// Errors (bad input): those of models::parse_config.
Result<Shape> parse_shape(std::string_view file, std::string_view text);
// A name of the catalogue of models ("meta-llama/Llama-3.1-8B-Instruct" finds llama-3.1-8b), or a file or folder with a
// config.json. Errors (bad input): neither, with the nearest names; those of models::parse_config.
Result<Shape> load_shape(const std::string& model);

}  // namespace weft::serving
