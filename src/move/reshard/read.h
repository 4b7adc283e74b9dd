#pragma once

#include "move/reshard/layout.h"

namespace weft::reshard {

// Two layouts by what a user calls them: a file of weft.layout/1, one of safetensors or an index of several, the text
// of a layout ("{…"), or the other one as a system splits it by name ("vllm:tp=8"). Errors (bad input): which of both,
// as
// --from or --to; both by name.
Result<std::pair<Layout, Layout>> read_layouts(const std::string& from, const std::string& to);

}  // namespace weft::reshard
