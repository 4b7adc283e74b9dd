#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/types.h"

namespace weft::exec {

// How often a value is rounded to the element type on its way: partial results of most algorithms travel as elements,
// so after every step; a single fold rounds once, at its end.
enum class Rounded { kEveryStep, kOnce };

// What one element of a reduction may be: derived from the type, the operation, the ranks' contributions and nothing
// else, so that it holds for every algorithm and every order. See reference.cc for the derivation.
struct Expected {
  bool integer = false;
  std::uint64_t bits = 0;    // integers: exactly this, in the lower bits
  bool exact = false;        // floats: exactly `value`, down to the sign of zero
  double value = 0;          // floats: in infinite precision (of which double has enough)
  double low = 0, high = 0;  // a finite result lies between them
  bool finite = true;        // a finite result is acceptable
  bool plus_infinity = false, minus_infinity = false, nan = false;  // these are
};

// The reduction of `contributions`: one element per rank, in rank order, each of the type's size. `scalars`: one per
// rank for kPremulSum, otherwise empty. Requires: applies(type, op).
Expected reference(DataType type, ReduceOp op, std::span<const std::byte> contributions,
                   std::span<const Scalar> scalars = {}, Rounded rounded = Rounded::kEveryStep);

// `got`: one element.
bool acceptable(DataType type, const void* got, const Expected& expected);

}  // namespace weft::exec
