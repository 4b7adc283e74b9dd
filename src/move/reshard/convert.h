#pragma once

#include "move/reshard/receiver.h"

// Elements that change their type on the way: the sender converts its parts into memory beside, and what moves is what
// the receivers want.
namespace weft::reshard {

// Elements of the types "float32", "float16", "bfloat16", "float8_e4m3fn" (towards it: saturating, as inference engines
// do; NaN stays NaN). To the nearest, ties to even. `in` and `out` do not overlap. Errors (bad input): another type.
Status convert(const std::string& from, std::span<const std::byte> in, const std::string& to, std::span<std::byte> out);

// A tensor of the first layout that the second has with another type. `scales` >= 0: the tensor of the second that
// holds a float32 per 128 x 128 block, by which its elements are to be multiplied ("NAME_scale_inv", as DeepSeek V3 and
// vLLM have it); the blocks' largest values become 448.
struct Conversion {
  std::int32_t tensor = 0;  // of both layouts that `Converted` names
  std::int32_t scales = -1;
  std::string from, to;
};

// What senders have after they have converted: the first layout with the types, and the scales, that the second wants.
struct Converted {
  Layout layout;  // tensors of `from` in their order, then the scales
  std::vector<Conversion> conversions;
};

// Errors (bad input), each naming the tensor: types that convert() does not know, scales of another shape, a rank whose
// part of a scaled tensor does not begin and end at blocks, or is not one box.
Result<Converted> converted(const Layout& from, const Layout& to);

// Converts or copies one rank's parts: `in` is memory_of(from, rank), `out` memory_of(converted.layout, rank).
Status convert_parts(const Layout& from, const Converted& converted, Rank rank, std::span<const std::byte> in,
                     std::span<std::byte> out);

}  // namespace weft::reshard
