#pragma once

#include "move/reshard/plan.h"

namespace weft::reshard {

// Writes the moves of one flow between two ranks: pieces as long as they are contiguous at both sides, equal ones at
// equal distances as one move.
class Plan::Writer {
 public:
  Writer(const Pattern& pattern, const Flow& flow, const Choice& choice) : choice_(choice) {
    const std::size_t dims = choice.by_dim.size();
    source_strides_.resize(dims), destination_strides_.resize(dims);
    std::int64_t source = pattern.element_bytes, destination = pattern.element_bytes;
    piece_bytes_ = pattern.element_bytes;
    inner_ = dims;
    const auto& sg = pattern.source->groups[static_cast<std::size_t>(choice.source_group)];
    const auto& dg = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)];
    for (std::size_t d = dims; d-- > 0;) {
      const std::int64_t se = pattern.source->dims[d][static_cast<std::size_t>(sg.parts[d])].extent;
      const std::int64_t de = pattern.destination->dims[d][static_cast<std::size_t>(dg.parts[d])].extent;
      source_strides_[d] = source, destination_strides_[d] = destination;
      source *= se, destination *= de;
      const auto& pieces = *choice.by_dim[d];
      const bool whole = pieces.size() == 1 && pieces[0].length == se && pieces[0].length == de;
      if (whole && inner_ == d + 1) inner_ = d, piece_bytes_ *= se;
    }
  }

  // Contiguous pieces of the flow between two ranks.
  std::int64_t pieces() const {
    if (inner_ == 0) return 1;
    auto n = static_cast<std::int64_t>(choice_.by_dim[inner_ - 1]->size());
    for (std::size_t d = 0; d + 1 < inner_; ++d) {
      std::int64_t rows = 0;
      for (const Piece& p : *choice_.by_dim[d]) rows += p.length;
      n *= rows;
    }
    return n;
  }

  void write(Move move, const std::function<void(const Move&)>& call) const {
    move.source = move.destination = 0;
    if (inner_ == 0) {
      move.bytes = piece_bytes_, move.count = 1;
      call(move);
      return;
    }
    at(0, move, call);
  }

 private:
  void at(std::size_t d, Move move, const std::function<void(const Move&)>& call) const {
    const bool last = d + 1 == inner_, strided = d + 2 == inner_;
    for (const Piece& p : *choice_.by_dim[d]) {
      Move next = move;
      next.source += p.source * source_strides_[d];
      next.destination += p.destination * destination_strides_[d];
      if (last) {
        next.bytes = p.length * piece_bytes_;
        call(next);
      } else if (strided) {
        next.count = p.length;
        next.source_stride = source_strides_[d], next.destination_stride = destination_strides_[d];
        at(d + 1, next, call);
      } else {
        for (std::int64_t i = 0; i < p.length; ++i) {
          at(d + 1, next, call);
          next.source += source_strides_[d], next.destination += destination_strides_[d];
        }
      }
    }
  }

  const Choice& choice_;
  std::vector<std::int64_t> source_strides_, destination_strides_;
  std::int64_t piece_bytes_ = 1;
  std::size_t inner_ = 0;  // dimensions from here on are whole in both parts
};

}  // namespace weft::reshard
