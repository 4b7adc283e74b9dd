#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace weft::kv {

// What a model keeps for every token that it has seen. From a config.json in the form of Hugging Face's transformers.
struct ModelShape {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0, head_bytes = 0;  // per layer: keys and values of kv_heads heads …
  std::int64_t latent_bytes = 0;              // … or one latent vector with its rotary part (MLA); 0: not MLA
  std::string type;                           // of the elements, e.g. "bfloat16"

  bool mla() const { return latent_bytes > 0; }
  // The bytes of one token, without replication.
  Bytes token_bytes() const { return layers * (mla() ? latent_bytes : 2 * kv_heads * head_bytes); }
  // Tensor parallelism over more ranks than there are heads keeps copies; a latent vector is needed by every rank, but
  // one copy of it serves a store.
  std::int64_t copies(std::int64_t tp) const { return mla() ? 1 : std::max<std::int64_t>(1, tp / kv_heads); }
  Bytes rank_bytes(std::int64_t tp) const { return mla() ? token_bytes() : token_bytes() * copies(tp) / tp; }
};

// `text`: the file's; `where`: its name, for errors; `type`: elements of the cache instead of the model's, or empty.
// Errors (bad input): no JSON, a field missing or senseless, an unknown type.
Result<ModelShape> parse_model(std::string_view text, const std::string& where, const std::string& type = "");
// Errors (bad input): the heads cannot be spread over `tp` ranks.
Status check_tp(const ModelShape& model, std::int64_t tp);

}  // namespace weft::kv
