#pragma once

#include <string>

#include "base/result.h"
#include "move/kv/model.h"

namespace weft::cli {

struct KvFetchSpec {
  std::string config, type, on, calibration, from = "node", stack, prefill, tokens = "1024,8192,65536", json;
  std::int64_t block_tokens = 16, tp = 1;
};

// `weft kv fetch`: what it takes on a modelled machine to fetch a prompt's cache, beside computing it again.
Result<int> kv_fetch(const KvFetchSpec& spec);

// Errors (bad input): the attention heads of a layer cannot be spread evenly over `tp` ranks.
Status check_query_heads(const kv::ModelShape& model, std::int64_t tp);

}  // namespace weft::cli
