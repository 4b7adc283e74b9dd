#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "move/transfer/file_io.h"
#include "move/transfer/gpu.h"
#include "move/transfer/segment.h"
#include "weft/transfer.h"

namespace weft::transfer {

struct Object;
class ObjectIo;

// A region as a requester sees it: its own, or a peer's.
struct Target {
  std::uint32_t region = 0;
  Path path = Path::kDirect;
  std::byte* base = nullptr;  // direct, mapped, gpu memory
  std::uint64_t address = 0;  // in the process that registered it
  // File: the agent's region owns the descriptors, the agent `io`. `direct_fd` below 0: always by the page cache.
  int fd = -1, direct_fd = -1;
  FileIo* io = nullptr;
  std::string file;                // its name, for messages
  std::shared_ptr<Object> object;  // an object of S3, moved by …
  ObjectIo* objects = nullptr;
  Mapping mapping;  // mapped
  // Of a GPU's memory; null: the host's. `gpu_memory`: a peer's, as it is open here.
  std::shared_ptr<Gpu> copier;
  int gpu = -1;
  std::shared_ptr<void> gpu_memory;
  Bytes bytes = 0, page_bytes = 0;
  std::uint64_t generation = 0;             // not fenced: of its one page
  PageWord* pages = nullptr;                // null: by a line, where the server looks
  std::string why;                          // the path, and why not the others
  std::array<std::string, kPaths> why_not;  // by Path; empty: this path is there
  mutable bool closed = false;              // this agent's region is registered no more; by the agent's mutex

  bool by_line() const { return path == Path::kTcp || path == Path::kUcx; }
  bool fenced() const { return page_bytes > 0; }
  std::uint32_t page_at(Bytes offset) const { return fenced() ? static_cast<std::uint32_t>(offset / page_bytes) : 0; }
};

struct Peer;

namespace detail {

struct List {
  std::shared_ptr<Peer> peer;
  std::vector<Rows> rows;
  std::vector<std::shared_ptr<const Target>> targets;  // by row
  std::vector<std::int64_t> first;                     // number of the row's first element
  std::int64_t elements = 0;
  bool overlaps = false;  // rows may share bytes: checked element by element before they are written

  struct Element {
    const Target* target = nullptr;
    Bytes offset = 0, bytes = 0;
  };
  // A region of it that is registered no more; null: none.
  const Target* closed() const {
    const auto found = std::ranges::find_if(targets, [](const auto& target) { return target->closed; });
    return found == targets.end() ? nullptr : found->get();
  }
  // Requires: i < elements. `row`: where to look first; updated.
  Element at(std::int64_t i, std::size_t& row) const {
    if (i < first[row] || i >= first[row] + rows[row].count)
      row = static_cast<std::size_t>(std::upper_bound(first.begin(), first.end(), i) - first.begin()) - 1;
    const Rows& r = rows[row];
    return {targets[row].get(), r.offset + (i - first[row]) * r.stride, r.bytes};
  }
};

}  // namespace detail

// Errors (bad input): the row leaves the region, its elements overlap, or one crosses pages.
Status check_row(const Rows& row, const Target& target, const std::string& whose);
// Returns whether two rows may share a byte of a region. Rows of one stride that interleave (layers of a cache) do only
// where their elements meet; of other rows within each other it is assumed.
bool rows_overlap(std::span<const Rows> rows);
// Errors (bad input): different numbers or sizes of elements, indices past the end, missing generations, bytes that
// would be written twice.
Status check_lists(const detail::List& local, const detail::List& remote, const RequestOptions& options, Op op);

}  // namespace weft::transfer
