#pragma once

#include "base/units.h"

namespace weft::pgas {

// Ranks at equal distances: start, start + stride, …; what OpenSHMEM calls an active set. A value.
struct Group {
  Rank start = 0, stride = 1, size = 1;

  bool operator==(const Group&) const = default;
  auto operator<=>(const Group&) const = default;

  // The member's rank in the job. Requires: 0 <= member < size.
  Rank job_rank(Rank member) const { return static_cast<Rank>(start + std::int64_t{member} * stride); }
  // Which member a rank of the job is; -1: none.
  Rank member(Rank job_rank) const {
    const std::int64_t distance = std::int64_t{job_rank} - start;  // traces may name any numbers
    if (stride == 0) return distance == 0 && size == 1 ? 0 : -1;
    if (distance % stride != 0) return -1;
    const std::int64_t m = distance / stride;
    return m >= 0 && m < size ? static_cast<Rank>(m) : -1;
  }
  // Every `stride`-th member from `start` on, as a group of its own; the empty group (size 0) if that leaves the group.
  Group part(Rank part_start, Rank part_stride, Rank part_size) const {
    const std::int64_t last = part_start + (std::int64_t{part_size} - 1) * part_stride;
    const bool inside = part_size >= 1 && part_start >= 0 && part_start < size && last >= 0 && last < size &&
                        (part_stride != 0 || part_size == 1);
    return inside ? Group{job_rank(part_start), static_cast<Rank>(std::int64_t{part_stride} * stride), part_size}
                  : Group{0, 1, 0};
  }
};

}  // namespace weft::pgas
