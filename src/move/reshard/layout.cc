#include "move/reshard/layout.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"

namespace weft::reshard {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
constexpr std::int64_t kMostIntervals = 1 << 20;  // of one dimension on one rank

std::int64_t up(std::int64_t n, std::int64_t k) { return (n + k - 1) / k; }

std::int64_t padded(const Tensor& t, std::size_t dim) { return t.padded.empty() ? t.shape[dim] : t.padded[dim]; }

// The rows [begin, end) of a part, appended to another part.
void append(DimensionPart& to, const DimensionPart& from, std::int64_t begin, std::int64_t end) {
  for (const Interval& i : from.intervals) {
    const std::int64_t b = std::max(begin, i.local), e = std::min(end, i.local + i.length);
    if (b >= e) continue;
    const Interval next{i.global + b - i.local, e - b, to.extent + b - begin};
    auto& all = to.intervals;
    if (!all.empty() && all.back().global + all.back().length == next.global &&
        all.back().local + all.back().length == next.local)
      all.back().length += next.length;
    else
      all.push_back(next);
  }
  to.extent += std::max<std::int64_t>(0, std::min(end, from.extent) - std::min(begin, from.extent));
}

// The rows of `whole` that position `at` of `size` holds by chunks of ceil(n / k).
void append_chunk(DimensionPart& to, const DimensionPart& whole, std::int64_t first, std::int64_t n, std::int64_t at,
                  std::int64_t size, std::int64_t copies) {
  const std::int64_t chunk = up(n, size / copies), begin = std::min(n, at / copies * chunk);
  append(to, whole, first + begin, first + std::min(n, begin + chunk));
}

DimensionPart apply(const Split& split, const DimensionPart& whole, std::int64_t at, std::int64_t size) {
  DimensionPart part;
  const std::int64_t n = whole.extent;
  switch (split.kind) {
    case Split::Kind::kShard:
      append_chunk(part, whole, 0, n, at, size, split.copies);
      break;
    case Split::Kind::kBlockCyclic:
      for (std::int64_t begin = at * split.block; begin < n; begin += size * split.block)
        append(part, whole, begin, std::min(n, begin + split.block));
      break;
    case Split::Kind::kInterleaved: {
      std::int64_t first = 0;
      for (const Split::Part& p : split.parts) {
        append_chunk(part, whole, first, p.size, at, size, p.copies);
        first += p.size;
      }
      break;
    }
  }
  return part;
}

// Where a rank stands on each axis; empty: it is not in the mesh.
std::vector<std::int64_t> place_of(const Mesh& mesh, Rank rank) {
  if (mesh.ranks.empty()) return {};
  auto found =
      mesh.ranks.begin() + std::clamp<std::ptrdiff_t>(rank - mesh.ranks.front(), 0, std::ssize(mesh.ranks) - 1);
  if (*found != rank) found = std::find(mesh.ranks.begin(), mesh.ranks.end(), rank);  // ranks are not consecutive
  if (found == mesh.ranks.end()) return {};
  std::int64_t at = found - mesh.ranks.begin();
  std::vector<std::int64_t> place(mesh.axes.size() + 1);  // one more: a mesh without axes is one rank
  for (std::size_t a = mesh.axes.size(); a-- > 0;) {
    place[a] = at % mesh.axes[a].size;
    at /= mesh.axes[a].size;
  }
  return place;
}

class Checker {
 public:
  explicit Checker(const Layout& layout) : layout_(layout) {}

  Status run() {
    if (layout_.ranks < 1 || layout_.ranks > (1 << 20))
      return bad_input("{}: {} ranks: 1 to {}", layout_.name, layout_.ranks, 1 << 20);
    for (const Mesh& mesh : layout_.meshes) WEFT_CHECK(check_mesh(mesh));
    std::unordered_set<std::string> names, spreads;
    for (const Tensor& t : layout_.tensors) {
      if (t.components.empty() && !names.insert(t.name).second) return problem(t, "is there twice");
      for (const auto& c : t.components)
        if (!names.insert(c.name).second)
          return problem(t, fmt::format("holds {}, which is there twice", shown(c.name)));
      if (spreads.insert(spread_key(t)).second) WEFT_CHECK(check_tensor(t));
    }
    return {};
  }

 private:
  tl::unexpected<Error> problem(const Tensor& t, const std::string& what) const {
    return bad_input("{}: tensor {}: {}", layout_.name, shown(t.name), what);
  }

  Status check_mesh(const Mesh& mesh) const {
    std::int64_t size = 1;
    std::set<std::string_view> names;
    for (const auto& axis : mesh.axes) {
      if (!names.insert(axis.name).second)
        return bad_input("{}: mesh {}: two axes have the name {}", layout_.name, shown(mesh.name), shown(axis.name));
      if (axis.size < 1 || axis.size > layout_.ranks)
        return bad_input("{}: mesh {}: axis {} of {} ranks: 1 to {}", layout_.name, shown(mesh.name), shown(axis.name),
                         axis.size, layout_.ranks);
      size *= axis.size;
      if (size > layout_.ranks)
        return bad_input("{}: mesh {}: its axes need more than the layout's {} ranks", layout_.name, shown(mesh.name),
                         layout_.ranks);
    }
    if (static_cast<std::int64_t>(mesh.ranks.size()) != size)
      return bad_input("{}: mesh {}: {} ranks for axes of {}", layout_.name, shown(mesh.name), mesh.ranks.size(), size);
    std::set<Rank> seen;
    for (const Rank r : mesh.ranks) {
      if (r < 0 || r >= layout_.ranks)
        return bad_input("{}: mesh {}: rank {}: the layout has {} ranks", layout_.name, shown(mesh.name), r,
                         layout_.ranks);
      if (!seen.insert(r).second)
        return bad_input("{}: mesh {}: rank {} is there twice", layout_.name, shown(mesh.name), r);
    }
    return {};
  }

  Status check_tensor(const Tensor& t) const {
    std::int64_t bytes = t.element_bytes;
    if (bytes < 1 || bytes > 1024) return problem(t, fmt::format("elements of {} B: 1 to 1024", bytes));
    if (!t.padded.empty() && t.padded.size() != t.shape.size())
      return problem(t, "padding for another number of dimensions");
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
      if (t.shape[d] < 0) return problem(t, fmt::format("dimension {} has {} rows", d, t.shape[d]));
      if (padded(t, d) < t.shape[d])
        return problem(t, fmt::format("dimension {} is padded to {} rows and has {}", d, padded(t, d), t.shape[d]));
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(1, padded(t, d)), &bytes) || bytes > kMostBytes)
        return problem(t, "more than 2^62 bytes");
    }
    if (!t.components.empty()) {
      if (t.concat_dim < 0 || t.concat_dim >= static_cast<int>(t.shape.size()))
        return problem(t, fmt::format("holds others along dimension {} of {}", t.concat_dim, t.shape.size()));
      std::int64_t sum = 0;
      for (const auto& c : t.components) {
        if (c.size < 0 || __builtin_add_overflow(sum, c.size, &sum))
          return problem(t, fmt::format("holds {} rows of {}", c.size, shown(c.name)));
      }
      if (sum != t.shape[static_cast<std::size_t>(t.concat_dim)])
        return problem(t, fmt::format("the tensors it holds have {} rows together, dimension {} has {}", sum,
                                      t.concat_dim, t.shape[static_cast<std::size_t>(t.concat_dim)]));
    }
    if (!t.boxes.empty()) return check_boxes(t);
    if (t.mesh < 0 || t.mesh >= static_cast<int>(layout_.meshes.size())) return problem(t, "has no mesh");
    return check_splits(t);
  }

  Status check_splits(const Tensor& t) const {
    const Mesh& mesh = layout_.meshes[static_cast<std::size_t>(t.mesh)];
    std::set<int> axes, dims;
    for (const Split& s : t.splits) {
      if (s.axis < 0 || s.axis >= static_cast<int>(mesh.axes.size()))
        return problem(t, fmt::format("mesh {} has no axis {}", shown(mesh.name), s.axis));
      const auto& axis = mesh.axes[static_cast<std::size_t>(s.axis)];
      if (!axes.insert(s.axis).second) return problem(t, fmt::format("axis {} splits twice", shown(axis.name)));
      if (s.dim < 0 || s.dim >= static_cast<int>(t.shape.size()))
        return problem(t, fmt::format("axis {} splits dimension {} of {}", shown(axis.name), s.dim, t.shape.size()));
      const std::int64_t rows = padded(t, static_cast<std::size_t>(s.dim));
      const auto copies_fit = [&](std::int64_t copies) { return copies >= 1 && axis.size % copies == 0; };
      if (s.kind == Split::Kind::kShard) {
        if (!copies_fit(s.copies))
          return problem(t,
                         fmt::format("{} copies do not divide axis {} of {}", s.copies, shown(axis.name), axis.size));
        if (s.even && rows % (axis.size / s.copies) != 0)
          return problem(t, fmt::format("{} rows of dimension {} do not divide evenly over {} ranks of axis {}", rows,
                                        s.dim, axis.size / s.copies, shown(axis.name)));
      }
      if (s.kind == Split::Kind::kBlockCyclic && (s.block < 1 || rows / s.block / axis.size > kMostIntervals))
        return problem(t, fmt::format("blocks of {} rows: 1 or more, at most {} on one rank", s.block, kMostIntervals));
      if (s.kind == Split::Kind::kInterleaved) WEFT_CHECK(check_parts(t, s, axis, rows, dims.contains(s.dim)));
      dims.insert(s.dim);
    }
    return {};
  }

  Status check_parts(const Tensor& t, const Split& s, const Mesh::Axis& axis, std::int64_t rows, bool later) const {
    if (later) return problem(t, fmt::format("dimension {} is split before its parts are interleaved", s.dim));
    std::int64_t sum = 0;
    for (const auto& p : s.parts) {
      if (p.size < 0 || __builtin_add_overflow(sum, p.size, &sum))
        return problem(t, fmt::format("a part of {} rows", p.size));
      if (p.copies < 1 || axis.size % p.copies != 0)
        return problem(t, fmt::format("{} copies do not divide axis {} of {}", p.copies, shown(axis.name), axis.size));
      if (s.even && p.size % (axis.size / p.copies) != 0)
        return problem(t, fmt::format("a part of {} rows does not divide evenly over {} ranks of axis {}", p.size,
                                      axis.size / p.copies, shown(axis.name)));
    }
    if (sum != rows)
      return problem(
          t, fmt::format("the parts of dimension {} have {} rows together, the dimension has {}", s.dim, sum, rows));
    return {};
  }

  Status check_boxes(const Tensor& t) const {
    std::set<Rank> seen;
    std::vector<const Box*> distinct;
    for (const Box& box : t.boxes) {
      if (box.rank < 0 || box.rank >= layout_.ranks)
        return problem(t, fmt::format("rank {}: the layout has {} ranks", box.rank, layout_.ranks));
      if (!seen.insert(box.rank).second) return problem(t, fmt::format("rank {} has two boxes", box.rank));
      if (box.offset.size() != t.shape.size() || box.shape.size() != t.shape.size())
        return problem(t, fmt::format("rank {}: a box of another number of dimensions", box.rank));
      for (std::size_t d = 0; d < t.shape.size(); ++d) {
        const std::int64_t b = box.offset[d], n = box.shape[d];
        if (b < 0 || n < 0 || b > t.shape[d] || n > t.shape[d] - b)
          return problem(t, fmt::format("rank {}: {}", box.rank, rows_beyond(b, n, d, t.shape[d])));
      }
      if (std::none_of(distinct.begin(), distinct.end(),
                       [&](const Box* o) { return o->offset == box.offset && o->shape == box.shape; })) {
        for (const Box* other : distinct)
          if (overlap(*other, box))
            return problem(t, fmt::format("the boxes of ranks {} and {} overlap in part", other->rank, box.rank));
        distinct.push_back(&box);
      }
    }
    return {};
  }
  static std::string rows_beyond(std::int64_t begin, std::int64_t rows, std::size_t dim, std::int64_t has) {
    if (std::int64_t end = 0; rows >= 0 && !__builtin_add_overflow(begin, rows, &end))
      return fmt::format("rows {} to {} of dimension {}, which has {}", begin, end, dim, has);
    return fmt::format("{} rows from {} on of dimension {}, which has {}", rows, begin, dim, has);
  }
  static bool overlap(const Box& a, const Box& b) {
    for (std::size_t d = 0; d < a.offset.size(); ++d)
      if (std::max(a.offset[d], b.offset[d]) >= std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]))
        return false;
    return true;
  }

  const Layout& layout_;
};

}  // namespace

std::int64_t DimensionPart::rows() const {
  std::int64_t sum = 0;
  for (const Interval& i : intervals) sum += i.length;
  return sum;
}

std::int64_t Holding::elements() const {
  if (!present) return 0;
  std::int64_t n = 1;
  for (const DimensionPart& d : dims) n *= d.rows();
  return n;
}

std::int64_t Holding::local_elements() const {
  if (!present) return 0;
  std::int64_t n = 1;
  for (const DimensionPart& d : dims) n *= d.extent;
  return n;
}

std::int64_t elements(const Tensor& tensor) {
  std::int64_t n = 1;
  for (const std::int64_t rows : tensor.shape) n *= rows;
  return n;
}

Status check(const Layout& layout) { return Checker(layout).run(); }

Holding holding(const Layout& layout, const Tensor& t, Rank rank) {
  Holding holding;
  if (!t.boxes.empty()) {
    const auto box = std::find_if(t.boxes.begin(), t.boxes.end(), [&](const Box& b) { return b.rank == rank; });
    if (box == t.boxes.end()) return holding;
    holding.present = true;
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
      DimensionPart part{.extent = box->shape[d]};
      if (part.extent > 0) part.intervals.push_back({box->offset[d], box->shape[d], 0});
      holding.dims.push_back(std::move(part));
    }
    return holding;
  }
  const Mesh& mesh = layout.meshes[static_cast<std::size_t>(t.mesh)];
  const auto place = place_of(mesh, rank);
  if (place.empty()) return holding;
  holding.present = true;
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    DimensionPart part{.extent = padded(t, d)};
    if (t.shape[d] > 0) part.intervals.push_back({0, t.shape[d], 0});
    for (const Split& s : t.splits)
      if (s.dim == static_cast<int>(d))
        part =
            apply(s, part, place[static_cast<std::size_t>(s.axis)], mesh.axes[static_cast<std::size_t>(s.axis)].size);
    holding.dims.push_back(std::move(part));
  }
  return holding;
}

std::string spread_key(const Tensor& t) {
  std::string key = fmt::format("{};{};{}", fmt::join(t.shape, ","), t.element_bytes, t.boxes.empty() ? t.mesh : -1);
  for (const Split& s : t.splits) {
    key += fmt::format(";{},{},{},{},{},{}", s.axis, s.dim, static_cast<int>(s.kind), s.block, s.copies, s.even);
    for (const auto& p : s.parts) key += fmt::format(",{}*{}", p.size, p.copies);
  }
  if (!t.padded.empty()) key += fmt::format(";pad {}", fmt::join(t.padded, ","));
  for (const Box& b : t.boxes)
    key += fmt::format(";{}:{}:{}", b.rank, fmt::join(b.offset, ","), fmt::join(b.shape, ","));
  if (!t.components.empty()) key += fmt::format(";concat {}", t.concat_dim);
  for (const auto& c : t.components) key += fmt::format(",{}", c.size);
  return key;
}

}  // namespace weft::reshard
