#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "move/reshard/layout.h"

namespace weft::reshard {

// Reads weft.layout/1 (docs/reshard.md has the form). `file` names the text in errors and becomes Layout::name. The
// layout has passed check(). Errors (bad input): names file, tensor and key.
Result<Layout> parse_layout(std::string_view file, std::string_view text);

// The layout as weft.layout/1; parse_layout reads an equal one.
nlohmann::json to_json(const Layout& layout);

// Bytes of an element by a type's name as torch, safetensors or weft spell it: "bfloat16", "BF16",
// "torch.float8_e4m3fn". Errors (bad input): another name.
Result<std::int64_t> element_bytes_of(std::string_view type);

// The one name of those that a type has: "bfloat16" of "BF16". Requires: element_bytes_of() knows it.
std::string type_named(std::string_view type);

// Splits from DTensor's placements in torch's spelling, one per axis of the mesh: "Shard(0)", "Shard(dim=0)", "S(0)",
// "Replicate()", "R", "_StridedShard(dim=0, sf=2)". A strided shard applies after the other shards of its dimension.
// Errors (bad input): Partial, and what is none of these; does not name the tensor.
Result<std::vector<Split>> splits_of_placements(const std::vector<std::string>& placements, const Mesh& mesh);

}  // namespace weft::reshard
