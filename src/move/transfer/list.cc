#include "move/transfer/list.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace weft::transfer {
namespace {

// Elements repeat their place within pages after page / gcd(stride, page) of them.
bool crosses_pages(const Rows& row, Bytes page) {
  const Bytes period = row.count == 1 ? 1 : page / std::gcd(row.stride, page);
  for (Bytes i = 0; i < std::min(row.count, period); ++i)
    if ((row.offset + i * row.stride) % page + row.bytes > page) return true;
  return false;
}

std::int64_t asked(const detail::List& list, std::span<const std::uint32_t> blocks) {
  return blocks.empty() ? list.elements : static_cast<std::int64_t>(blocks.size());
}

Status check_blocks(const detail::List& list, std::span<const std::uint32_t> blocks, const char* which) {
  for (const std::uint32_t block : blocks)
    if (block >= list.elements)
      return bad_input("{} block {} is past the end of a list of {} elements", which, block, list.elements);
  return {};
}

tl::unexpected<Error> unequal(std::int64_t element, Bytes local, Bytes remote) {
  return bad_input("element {} has {} bytes in the local list and {} in the remote one", element, local, remote);
}

// Whole lists: run by run.
Status check_runs(const detail::List& local, const detail::List& remote) {
  std::int64_t element = 0;
  for (std::size_t a = 0, b = 0; a < local.rows.size() && b < remote.rows.size();) {
    if (local.rows[a].bytes != remote.rows[b].bytes) return unequal(element, local.rows[a].bytes, remote.rows[b].bytes);
    const std::int64_t end_a = local.first[a] + local.rows[a].count, end_b = remote.first[b] + remote.rows[b].count;
    element = std::min(end_a, end_b);
    if (end_a == element) ++a;
    if (end_b == element) ++b;
  }
  return {};
}

// No byte is written twice: not by a block that is named twice, not by rows that overlap.
Status check_written(const detail::List& list, std::span<const std::uint32_t> blocks, const char* which) {
  if (!blocks.empty()) {
    thread_local std::vector<bool> named;
    named.assign(static_cast<std::size_t>(list.elements), false);
    for (const std::uint32_t block : blocks) {
      if (named[block]) return bad_input("{} block {} is written twice by one request", which, block);
      named[block] = true;
    }
  }
  if (!list.overlaps) return {};
  struct Span {
    std::uint32_t region;
    Bytes begin, end;
    auto operator<=>(const Span&) const = default;
  };
  std::vector<Span> spans;
  std::size_t row = 0;
  for (std::int64_t i = 0; i < asked(list, blocks); ++i) {
    const auto e = list.at(blocks.empty() ? i : blocks[static_cast<std::size_t>(i)], row);
    spans.push_back({e.target->region, e.offset, e.offset + e.bytes});
  }
  std::ranges::sort(spans);
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i].region == spans[i - 1].region && spans[i].begin < spans[i - 1].end)
      return bad_input("the {} list writes the bytes from {} of region {} twice", which, spans[i].begin,
                       spans[i].region);
  return {};
}

Status check_objects(const detail::List& local, const detail::List& remote, Op op) {
  bool any = false;
  for (std::size_t i = 0; i < remote.rows.size(); ++i) {
    if (remote.targets[i]->object == nullptr) continue;
    any = true;
    const Rows& row = remote.rows[i];
    if (op == Op::kWrite && (row.offset != 0 || row.count != 1))
      return bad_input("object {} is written whole: one element from offset 0, not {} from offset {}",
                       remote.targets[i]->file, row.count, row.offset);
  }
  for (const auto& target : local.targets)
    if (any && target->copier != nullptr)
      return failure(Code::kUnsupported, Blame::kInput, "memory of GPUs does not go to objects: copy it to the host's");
  return {};
}

bool one_size(const detail::List& list) {
  return std::all_of(list.rows.begin(), list.rows.end(), [&](const Rows& r) { return r.bytes == list.rows[0].bytes; });
}

}  // namespace

Status check_row(const Rows& row, const Target& target, const std::string& whose) {
  if (row.bytes <= 0 || row.count <= 0 || row.offset < 0)
    return bad_input("{}: a row of {} elements of {} bytes at offset {}", whose, row.count, row.bytes, row.offset);
  if (row.count > 1 && row.stride < row.bytes)
    return bad_input("{}: elements of {} bytes overlap with a stride of {}", whose, row.bytes, row.stride);
  Bytes end = 0;
  if (__builtin_mul_overflow(row.count - 1, row.count > 1 ? row.stride : 0, &end) ||
      __builtin_add_overflow(end, row.offset, &end) || __builtin_add_overflow(end, row.bytes, &end) ||
      end > target.bytes)
    return bad_input("{}: {} elements of {} bytes from offset {} end past region {} of {} bytes", whose, row.count,
                     row.bytes, row.offset, row.region, target.bytes);
  if (target.fenced() && (row.bytes > target.page_bytes || crosses_pages(row, target.page_bytes)))
    return bad_input("{}: an element of {} bytes crosses pages of {} bytes of region {}", whose, row.bytes,
                     target.page_bytes, row.region);
  return {};
}

bool rows_overlap(std::span<const Rows> rows) {
  struct Extent {
    std::uint32_t region;
    Bytes begin, end;
    const Rows* row;
  };
  std::vector<Extent> extents;
  extents.reserve(rows.size());
  bool sorted = true;
  for (const Rows& r : rows) {
    extents.push_back({r.region, r.offset, r.offset + (r.count - 1) * r.stride * (r.count > 1) + r.bytes, &r});
    if (extents.size() > 1) {
      const Extent& last = extents[extents.size() - 2];
      sorted = sorted && std::pair(last.region, last.begin) <= std::pair(r.region, r.offset);
    }
  }
  const auto before = [](const Extent& a, const Extent& b) {
    return std::pair(a.region, a.begin) < std::pair(b.region, b.begin);
  };
  if (!sorted) std::ranges::sort(extents, before);
  // A cluster of rows within each other: all of one stride, or of one element, at places of a period that do not meet.
  std::map<Bytes, Bytes> taken;  // begin and end of a row's element within the period
  Bytes stride = 0, first = 0, end = 0;
  std::uint32_t region = 0;
  const auto place = [&](const Extent& e) {
    const Bytes at = (e.begin - first) % stride, until = at + e.row->bytes;
    const auto next = taken.lower_bound(at);
    const bool free = until <= stride && (next == taken.end() || until <= next->first) &&
                      (next == taken.begin() || std::prev(next)->second <= at);
    if (free) taken.emplace(at, until);
    return free;
  };
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const Extent& e = extents[i];
    if (e.region != region || e.begin >= end || taken.empty()) {
      taken.clear();
      const Extent* const next = i + 1 < extents.size() ? &extents[i + 1] : nullptr;
      if (next == nullptr || next->region != e.region || next->begin >= e.end) continue;  // alone, as most are
      region = e.region, first = e.begin, end = e.end;
      stride = e.row->count > 1 ? e.row->stride : e.row->bytes;
    } else if (e.row->count > 1 && e.row->stride != stride) {
      return true;
    }
    if (!place(e)) return true;
    end = std::max(end, e.end);
  }
  return false;
}

Status check_lists(const detail::List& local, const detail::List& remote, const RequestOptions& options, Op op) {
  WEFT_CHECK(check_blocks(local, options.local_blocks, "local"));
  WEFT_CHECK(check_blocks(remote, options.remote_blocks, "remote"));
  if (op == Op::kRead)
    WEFT_CHECK(check_written(local, options.local_blocks, "local"));
  else
    WEFT_CHECK(check_written(remote, options.remote_blocks, "remote"));
  const std::int64_t n = asked(local, options.local_blocks), m = asked(remote, options.remote_blocks);
  if (n != m) return bad_input("the local list gives {} elements and the remote one {}", n, m);
  if (options.local_blocks.empty() && options.remote_blocks.empty()) {
    WEFT_CHECK(check_runs(local, remote));
  } else if (one_size(local) && one_size(remote)) {
    if (local.rows[0].bytes != remote.rows[0].bytes) return unequal(0, local.rows[0].bytes, remote.rows[0].bytes);
  } else {
    std::size_t a = 0, b = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto l = local.at(options.local_blocks.empty() ? i : options.local_blocks[at], a);
      const auto r = remote.at(options.remote_blocks.empty() ? i : options.remote_blocks[at], b);
      if (l.bytes != r.bytes) return unequal(i, l.bytes, r.bytes);
    }
  }
  const bool fenced =
      std::any_of(remote.targets.begin(), remote.targets.end(), [](const auto& t) { return t->fenced(); });
  if (fenced && static_cast<std::int64_t>(options.generations.size()) != n)
    return bad_input("a fenced region needs the generation of every page: {} elements, {} generations", n,
                     options.generations.size());
  const bool all_fenced =
      std::all_of(remote.targets.begin(), remote.targets.end(), [](const auto& t) { return t->fenced(); });
  if (options.verify && !all_fenced) return bad_input("checksums need a fenced region: they belong to its pages");
  if (options.verify && op == Op::kRead)
    for (std::size_t i = 0; i < remote.rows.size(); ++i)
      if (remote.rows[i].bytes != remote.targets[i]->page_bytes)
        return bad_input("checksums are of whole pages: elements have {} bytes, pages {}", remote.rows[i].bytes,
                         remote.targets[i]->page_bytes);
  for (const auto& target : local.targets)
    if (target->path == Path::kFile || target->path == Path::kObject)
      return bad_input("the local list must be of memory; files and objects stand in the remote list");
  WEFT_CHECK(check_objects(local, remote, op));
  if (options.notify.size() > Agent::kMostNotification)
    return bad_input("a notification of {} bytes; at most {} fit", options.notify.size(), Agent::kMostNotification);
  return {};
}

}  // namespace weft::transfer
