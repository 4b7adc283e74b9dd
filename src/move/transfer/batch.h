#pragma once

#include "move/transfer/work.h"

namespace weft::transfer {

inline constexpr std::size_t kPieces = 512;  // of one system call, and between two looks at the generations

struct Piece {
  std::byte* local = nullptr;
  Bytes offset = 0, bytes = 0;  // in the remote region
  std::uint32_t page = 0;
  std::uint64_t generation = 0;
  std::uint32_t checksum = 0;
};

struct Batch {
  const Target *target = nullptr, *local = nullptr;  // `local`: of the first piece
  std::vector<Piece> pieces;
  Bytes bytes = 0;
};

// The next pieces, all of one remote region; moves the request's place on.
void gather(detail::Work& w, Bytes budget, Batch& batch);
// The first whose page has another generation than the request expects; null: none.
const Piece* find_stale(const Batch& batch);
Error stale(const detail::Work& w, const Batch& batch, const Piece& piece);

}  // namespace weft::transfer
