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

Meaning::Run Meaning::run(std::int64_t at, std::int64_t length, std::int64_t stride, std::int64_t count) const {
  Run run{.segment = this->at(at)};
  const std::int64_t whole = run.segment.length;
  run.segment.length = std::min(whole, length);
  if (run.segment.tensor == nullptr || count == 1) return run;
  if (whole >= length + stride) {  // pieces of one stretch of elements
    run.count = std::min(count, (whole - length) / stride + 1);
    run.step = stride;
    return run;
  }
  // Rows of the dimension before the innermost one that is looked at: each piece is the same part of a later row.
  if (row_ < 2) return run;
  const std::size_t d = row_ - 2;
  const std::int64_t pitch = holding_.dims[row_ - 1].extent * inner_;
  if (stride % pitch != 0) return run;
  const DimensionPart& part = holding_.dims[d];
  const std::int64_t local = at / pitch % part.extent;
  const Interval& interval =
      *std::prev(std::upper_bound(part.intervals.begin(), part.intervals.end(), local,
                                  [](std::int64_t l, const Interval& i) { return l < i.local; }));
  std::int64_t left = interval.local + interval.length - local, row_elements = tensor_.shape[row_ - 1] * inner_;
  const auto concat = static_cast<std::size_t>(tensor_.concat_dim);
  if (!tensor_.components.empty() && concat >= d) {
    // Components end within dimension d, or are columns of their own width.
    std::int64_t begin = 0, index = concat == d ? interval.global + local - interval.local : -1;
    for (const auto& c : tensor_.components) {
      if (concat == d && index < begin + c.size) {
        left = std::min(left, begin + c.size - index);
        break;
      }
      if (concat == d + 1 && &c.name == run.segment.tensor) row_elements = c.size * inner_;
      begin += c.size;
    }
  }
  run.count = std::min(count, (left - 1) / (stride / pitch) + 1);
  run.step = stride / pitch * row_elements;
  return run;
}

bool Meaning::whole(std::size_t d) const {
  const DimensionPart& part = holding_.dims[d];
  const std::int64_t n = tensor_.shape[d];
  return n > 0 && part.extent == n && part.intervals.size() == 1 && part.intervals[0] == Interval{0, n, 0};
}

}  // namespace weft::reshard
