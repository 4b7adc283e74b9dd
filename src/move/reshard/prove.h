#pragma once

#include <functional>
#include <span>

#include "move/reshard/plan.h"

// The proof that moves turn one layout into another. It knows layouts and moves, and nothing of how plans are made.
namespace weft::reshard {

struct Proof {
  std::int64_t tensors = 0, moves = 0, pieces = 0;  // looked at
};

// Shows that the moves write every byte that a rank of `to` holds of the tensor `to_tensor` (-1: of every tensor)
// exactly once, from a rank of `from` that has this very byte, and write nothing else. Requires: check() has passed
// for both layouts. Errors (kInternal) in one line: the first byte that is not so, by tensor, rank and offset in the
// rank's part.
Result<Proof> prove(const Layout& from, const Layout& to, std::span<const Move> moves, std::int32_t to_tensor = -1);

// The same for a whole plan: one tensor for each pattern, once with each choice among equal senders. Tensors of one
// pattern have equal moves. `progress` is called after each pattern with how many are proved.
Result<Proof> prove(const Plan& plan, const std::function<void(std::int64_t done)>& progress = {});

}  // namespace weft::reshard
