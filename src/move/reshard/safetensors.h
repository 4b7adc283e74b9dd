#pragma once

#include <filesystem>

#include "move/reshard/layout.h"

namespace weft::reshard {

// The layout of a checkpoint of safetensors: every file is a rank that holds its tensors whole. `file`: a *.safetensors
// file, or an index (model.safetensors.index.json) whose files lie beside it, in the order of their names. Reads
// headers only. Errors (bad input): names the file and the tensor: a file that is missing or none of this form, a
// tensor that the index names and its file lacks.
Result<Layout> read_safetensors(const std::filesystem::path& file);

// Whether a file's name says that it is one of these.
bool is_safetensors(const std::filesystem::path& file);

}  // namespace weft::reshard
