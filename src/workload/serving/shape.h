#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::serving {

enum class Attention : std::uint8_t { kHeads, kLatent, kLinear };

// Layers of a model that are alike: what one of them computes and keeps. Counts of elements.
struct LayerKind {
  std::int64_t count = 0;
  Attention attention = Attention::kHeads;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  std::int64_t window = 0;                                           // tokens that a query sees at most; 0: all
  bool output_gate = false;                                          // as many gates as query values
  std::int64_t q_rank = 0, kv_rank = 0, rope_dim = 0, nope_dim = 0;  // latent attention
  std::int64_t index_heads = 0, index_dim = 0, index_top_k = 0;      // its sparse form: keys that a query sees
  std::int64_t key_heads = 0, key_dim = 0, convolution = 0;          // linear attention; its values: heads, head_dim
  std::int64_t ffn = 0;                                              // of a dense MLP; 0: experts
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0;

  std::int64_t query_width() const;
  std::int64_t value_width() const { return heads * value_dim; }
  std::int64_t mixer_parameters(std::int64_t hidden) const;
  // Elements that one token adds to a cache, all heads; 0 for linear attention.
  std::int64_t cache_elements() const;
  std::int64_t state_elements() const;  // kept per sequence whatever its length, in 4-byte numbers
  bool operator==(const LayerKind&) const = default;
};

// A model as engines serve it. A value.
struct Shape {
  std::string name, source;
  std::int64_t hidden = 0, vocab = 0, longest = 0;
  bool tied = false;
  std::vector<LayerKind> kinds;
  // How the file's own weights are quantised: "", "fp8", "fp8_block", "mxfp4", "int4", "nvfp4".
  std::string quantised;
  bool attention_unquantised = false;  // … but for attention's projections

  std::int64_t layers() const;
  bool experts() const;
  bool latent() const;
  std::int64_t heads() const;
  std::int64_t kv_heads() const;
  std::int64_t parameters() const;
  std::int64_t active_parameters() const;
};

// Errors (bad input): names the file and the key that is missing or has no sense.
Result<Shape> parse_shape(std::string_view file, std::string_view text);
// A name of data/serving/models ("deepseek-ai/DeepSeek-R1" and "DeepSeek-R1-FP8" find deepseek-v3), or a file or folder
// with a config.json. Errors (bad input): neither.
Result<Shape> load_shape(const std::string& model);
std::vector<std::string> shape_names();

}  // namespace weft::serving
