#include "move/transfer/batch.h"

namespace weft::transfer {

using detail::Work;

void gather(Work& w, Bytes budget, Batch& batch) {
  batch.target = batch.local = nullptr;
  batch.pieces.clear();
  batch.bytes = 0;
  while (w.next < w.elements && batch.bytes < budget) {
    const auto remote = w.remote_at(w.next);
    if (batch.target != nullptr && batch.target != remote.target) return;
    const auto local = w.local_at(w.next);
    if (batch.local != nullptr && batch.local->gpu != local.target->gpu) return;
    batch.target = remote.target;
    batch.local = local.target;
    const bool fenced = remote.target->fenced();
    const Bytes left = remote.bytes - w.inside, bytes = fenced ? left : std::min(left, budget - batch.bytes);
    std::byte* const at = local.target->base + local.offset + w.inside;
    const Bytes offset = remote.offset + w.inside;
    Piece* const last = batch.pieces.empty() ? nullptr : &batch.pieces.back();
    if (!fenced && last != nullptr && last->offset + last->bytes == offset && last->local + last->bytes == at) {
      last->bytes += bytes;
    } else {
      if (batch.pieces.size() == kPieces) return;
      batch.pieces.push_back({at, offset, bytes, remote.target->page_at(offset),
                              fenced ? w.generations[static_cast<std::size_t>(w.next)] : remote.target->generation});
    }
    batch.bytes += bytes;
    w.inside += bytes;
    if (w.inside < remote.bytes) return;
    w.inside = 0;
    ++w.next;
  }
}

Error stale(const Work& w, const Batch& batch, const Piece& piece) {
  const std::string& peer = w.remote->peer->name;
  if (!batch.target->fenced())
    return {Code::kPeerLeft, Blame::kOperation,
            fmt::format("{}: region {} is registered no more", peer, batch.target->region)};
  return {Code::kMismatch, Blame::kOperation,
          fmt::format("{}: page {} of region {} has been released, or given to another owner", peer, piece.page,
                      batch.target->region)};
}

const Piece* find_stale(const Batch& batch) {
  for (const Piece& piece : batch.pieces)
    if (!holds(batch.target->pages[piece.page], piece.generation)) return &piece;
  return nullptr;
}

}  // namespace weft::transfer
