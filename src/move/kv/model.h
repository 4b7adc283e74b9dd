#pragma once

#include <string>
#include <string_view>

#include "base/models/model.h"
#include "base/result.h"
#include "base/units.h"

namespace weft::kv {

// What a model keeps for every token that it has seen, in bytes. From a config.json in the form of Hugging Face's
// transformers.
struct ModelShape {
  models::Model model;
  std::string type;  // of the cache's elements, e.g. "bfloat16"
  std::int64_t element_bytes = 2;

  bool mla() const;  // some layer keeps a latent vector instead of heads
  std::int64_t layers() const { return static_cast<std::int64_t>(model.layers.size()); }
  // Returns the bytes of one token while every layer keeps it, layers with a window included; without copies.
  Bytes token_bytes() const;
  // Returns the bytes that one more token adds to a long sequence: layers whose cache grows; without copies.
  Bytes growing_bytes() const { return model.cache().token_elements * element_bytes; }
  // The same on one of `tp` ranks. A latent vector is needed by every rank, but one copy of it serves a store.
  Bytes rank_bytes(std::int64_t tp) const;
  // How often the heads of keys and values are kept over all ranks.
  std::int64_t copies(std::int64_t tp) const {
    return mla() ? 1 : std::max<std::int64_t>(1, rank_bytes(tp) * tp / std::max<Bytes>(1, token_bytes()));
  }
  // A sequence of `tokens` tokens on one of `tp` ranks: keys and values with windows cut to their length, the indexer's
  // keys, states of recurrent layers.
  Bytes sequence_bytes(std::int64_t tokens, std::int64_t tp) const;
  // Keys of sparse attention's indexer, one byte per element and four for the scale (DeepSeek-V3.2's release notes,
  // 2025-09: 132 bytes per token and layer), per token.
  Bytes index_bytes() const;
  // States of recurrent layers of one sequence on one rank: FP32, as Mamba's and delta net's kernels keep them.
  Bytes state_bytes(std::int64_t tp) const { return model.cache(tp).state_elements * 4; }
};

// `text`: the file's; `where`: its name, for errors; `type`: elements of the cache instead of the model's, or empty.
// Errors (bad input): no JSON, a field missing or senseless, an unknown type.
Result<ModelShape> parse_model(std::string_view text, const std::string& where, const std::string& type = "");
// Errors (bad input): the heads cannot be spread over `tp` ranks.
Status check_tp(const ModelShape& model, std::int64_t tp);

}  // namespace weft::kv
