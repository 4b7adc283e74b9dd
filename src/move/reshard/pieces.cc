#include "move/reshard/pieces.h"

#include <algorithm>
#include <map>
#include <vector>

namespace weft::reshard {
namespace {

// Rows [top, bottom) and columns [left, right) of the grid.
struct Rectangle {
  std::int64_t top, bottom, left, right;
};

// The stride that most pieces have; 1: none lie at equal distances.
std::int64_t width_of(std::span<const Pieces> all) {
  std::map<std::int64_t, std::int64_t> pieces;
  for (const Pieces& p : all)
    if (p.count > 1 && p.stride >= p.length) pieces[p.stride] += p.count;
  std::int64_t width = 1, most = 0;
  for (const auto& [stride, n] : pieces)
    if (n > most) width = stride, most = n;
  return width;
}

class Grid {
 public:
  explicit Grid(std::int64_t width) : width_(width) {}

  void add(const Pieces& p) {
    if (p.count == 1) return add(p.begin, p.begin + p.length);
    if (p.stride != width_) {
      for (std::int64_t i = 0; i < p.count; ++i) add(p.begin + i * p.stride, p.begin + i * p.stride + p.length);
      return;
    }
    const std::int64_t row = p.begin / width_, column = p.begin % width_, end = column + p.length;
    push({row, row + p.count, column, std::min(end, width_)});
    if (end > width_) push({row + 1, row + 1 + p.count, 0, end - width_});
  }

  // Sweeps over the rows; rectangles that begin at this row are put between those that have not ended.
  bool disjoint() {
    std::sort(all_.begin(), all_.end(), [](const Rectangle& a, const Rectangle& b) { return a.top < b.top; });
    std::vector<const Rectangle*> by_bottom;
    for (const Rectangle& r : all_) by_bottom.push_back(&r);
    std::sort(by_bottom.begin(), by_bottom.end(),
              [](const Rectangle* a, const Rectangle* b) { return a->bottom < b->bottom; });
    std::map<std::int64_t, std::int64_t> open;  // left to right
    auto ended = by_bottom.begin();
    for (const Rectangle& r : all_) {
      for (; (*ended)->bottom <= r.top; ++ended) open.erase((*ended)->left);
      const auto [at, fresh] = open.emplace(r.left, r.right);
      if (!fresh) return false;
      if (std::next(at) != open.end() && std::next(at)->first < r.right) return false;
      if (at != open.begin() && std::prev(at)->second > r.left) return false;
    }
    return true;
  }

 private:
  // A contiguous range: the end of a row, whole rows, the begin of a row.
  void add(std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin / width_, last = end / width_;
    if (first == last) return push({first, first + 1, begin % width_, end % width_});
    const std::int64_t whole = begin % width_ == 0 ? first : first + 1;
    if (whole > first) push({first, whole, begin % width_, width_});
    push({whole, last, 0, width_});
    push({last, last + 1, 0, end % width_});
  }
  void push(const Rectangle& r) {
    if (r.top < r.bottom && r.left < r.right) all_.push_back(r);
  }

  std::int64_t width_;
  std::vector<Rectangle> all_;
};

}  // namespace

bool disjoint(std::span<const Pieces> all) {
  Grid grid(width_of(all));
  for (const Pieces& p : all) {
    if (p.count > 1 && p.stride < p.length) return false;
    grid.add(p);
  }
  return grid.disjoint();
}

}  // namespace weft::reshard
