#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "apps/training/plan.h"

namespace weft::training {

// Which layers a stage's chunk holds.
struct Chunk {
  std::int64_t stage = 0, chunk = 0;
  std::int64_t first = 0, layers = 0;  // of the model
};

// All chunks in the model's order: chunk c of stage s is entry c × pp + s. Where the layers do not divide, the
// embedding and the loss count as a layer each (Megatron-LM's --account-for-embedding-in-pipeline-split and its
// sibling), and what is then left over goes to the first chunks behind the embedding's. Requires: check_layout.
std::vector<Chunk> chunks_of(const Model& model, const Plan& plan);
std::int64_t layers_of_stage(const Model& model, const Plan& plan, std::int64_t stage);

// Errors (bad input): more chunks than layers with embedding and loss; counts that do not sum to the model's layers.
Status check_layout(const Model& model, const Plan& plan);

// Megatron-LM's layout of layers, e.g. "Et*3|(tt|)*29mL": E the embedding, t a layer, m one of multi-token prediction,
// L the loss; "|" ends a chunk, "*N" repeats a letter or a group in parentheses. Errors (bad input): the letter that is
// not understood, a parenthesis that is left open.
struct Layout {
  std::vector<std::int64_t> layers;  // of every chunk
  std::int64_t mtp = 0;
};
Result<Layout> parse_layout(std::string_view text);

}  // namespace weft::training
