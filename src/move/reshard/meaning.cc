#include "move/reshard/meaning.h"

#include <algorithm>

namespace weft::reshard {

Meaning::Meaning(const Tensor& tensor, Holding holding)
    : tensor_(tensor), holding_(std::move(holding)), elements_(holding_.local_elements()) {
  const std::size_t dims = tensor.shape.size();
  while (holding_.present && row_ < dims) {  // dimensions behind `row_` are whole
    const std::size_t d = dims - 1 - row_;
    if (!whole(d) || (!tensor.components.empty() && d == static_cast<std::size_t>(tensor.concat_dim))) break;
    inner_ *= tensor.shape[d];
    ++row_;
  }
  row_ = dims - row_;  // dimensions before and at row_ - 1 are looked at one by one
}

Meaning::Segment Meaning::at(std::int64_t at) const {
  std::int64_t rest = at / inner_;
  const std::int64_t within = at % inner_;
  std::int64_t left = 1;  // rows of the innermost dimension that is not whole
  std::vector<std::int64_t> index(row_);
  for (std::size_t d = row_; d-- > 0;) {
    const DimensionPart& part = holding_.dims[d];
    const std::int64_t local = rest % part.extent;
    rest /= part.extent;
    auto next = std::upper_bound(part.intervals.begin(), part.intervals.end(), local,
                                 [](std::int64_t l, const Interval& i) { return l < i.local; });
    if (next == part.intervals.begin()) return {.length = 1};
    const Interval& interval = *std::prev(next);
    if (local >= interval.local + interval.length) return {.length = 1};
    index[d] = interval.global + local - interval.local;
    if (d + 1 == row_) left = interval.local + interval.length - local;
  }
  Segment segment{.tensor = &tensor_.name};
  std::int64_t begin = 0, size = 0;
  const auto concat = static_cast<std::size_t>(tensor_.concat_dim);
  for (const auto& c : tensor_.components) {
    size = c.size;
    segment.tensor = &c.name;
    if (index[concat] < begin + size) break;
    begin += size;
  }
  if (!tensor_.components.empty()) {
    if (concat + 1 == row_) left = std::min(left, begin + size - index[concat]);
    index[concat] -= begin;
  }
  for (std::size_t d = 0; d < row_; ++d)
    segment.first = segment.first * (!tensor_.components.empty() && d == concat ? size : tensor_.shape[d]) + index[d];
  segment.first = segment.first * inner_ + within;
  segment.length = left * inner_ - within;
  return segment;
}

bool Meaning::whole(std::size_t d) const {
  const DimensionPart& part = holding_.dims[d];
  const std::int64_t n = tensor_.shape[d];
  return n > 0 && part.extent == n && part.intervals.size() == 1 && part.intervals[0] == Interval{0, n, 0};
}

}  // namespace weft::reshard
