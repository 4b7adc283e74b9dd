#include <algorithm>

#include "move/transfer/state.h"

// Lists: checked once, from rows of regions or from addresses.
namespace weft::transfer {
namespace {

// Makes rows of addresses: neighbours at equal distances become one row.
class RowsOfAddresses {
 public:
  explicit RowsOfAddresses(const Peer& peer) : peer_(peer) {
    for (const auto& [id, target] : peer.targets)
      if (target->path != Path::kFile && target->path != Path::kObject) by_address_.push_back(target.get());
    std::sort(by_address_.begin(), by_address_.end(), [](auto* a, auto* b) { return a->address < b->address; });
  }

  Status add(const Extent& extent) {
    if (extent.bytes <= 0 || extent.count <= 0)
      return bad_input("{}: {} elements of {} bytes at {:#x}", peer_.name, extent.count, extent.bytes, extent.address);
    if (!within(extent.address, extent.bytes)) {
      last_ = find(extent.address);
      if (last_ == nullptr || !within(extent.address, extent.bytes)) return unregistered(extent);
    }
    const auto offset = static_cast<std::int64_t>(extent.address - last_->address);
    if (extent.count == 1 && extends(offset, extent.bytes)) {
      Rows& row = rows_.back();
      if (row.count++ == 1) row.stride = offset - row.offset;
    } else {
      rows_.push_back({last_->region, offset, extent.bytes, extent.stride, extent.count});
    }
    return {};
  }
  const std::vector<Rows>& rows() const { return rows_; }

 private:
  bool within(std::uint64_t address, std::int64_t bytes) const {
    return last_ != nullptr && address >= last_->address && bytes <= last_->bytes &&
           address - last_->address <= static_cast<std::uint64_t>(last_->bytes - bytes);
  }
  const Target* find(std::uint64_t address) const {
    const auto after = std::upper_bound(by_address_.begin(), by_address_.end(), address,
                                        [](std::uint64_t at, const Target* t) { return at < t->address; });
    return after == by_address_.begin() ? nullptr : *std::prev(after);
  }
  bool extends(std::int64_t offset, std::int64_t bytes) const {
    if (rows_.empty()) return false;
    const Rows& row = rows_.back();
    if (row.region != last_->region || row.bytes != bytes) return false;
    return row.count == 1 ? offset - row.offset >= bytes : offset == row.offset + row.count * row.stride;
  }
  Status unregistered(const Extent& extent) const {
    const bool inside = last_ != nullptr && extent.address >= last_->address &&
                        extent.address - last_->address < static_cast<std::uint64_t>(last_->bytes);
    if (inside)
      return failure(Code::kNotFound, Blame::kInput, "{}: {} bytes at {:#x} end past region {} of {} bytes at {:#x}",
                     peer_.name, extent.bytes, extent.address, last_->region, last_->bytes, last_->address);
    return failure(Code::kNotFound, Blame::kInput,
                   "{}: the memory at {:#x} is not registered, or was not when its metadata was loaded", peer_.name,
                   extent.address);
  }

  const Peer& peer_;
  std::vector<const Target*> by_address_;
  const Target* last_ = nullptr;
  std::vector<Rows> rows_;
};

Result<std::shared_ptr<detail::List>> check_list(const std::shared_ptr<Peer>& peer, std::span<const Rows> rows) {
  if (rows.empty()) return bad_input("a list without rows");
  auto list = std::make_shared<detail::List>();
  list->peer = peer;
  list->rows.reserve(rows.size());
  list->targets.reserve(rows.size());
  list->first.reserve(rows.size());
  for (const Rows& row : rows) {
    const auto target = peer->targets.find(row.region);
    if (target == peer->targets.end())
      return bad_input("{}: region {} is not registered, or was not when its metadata was loaded", peer->name,
                       row.region);
    WEFT_CHECK(check_row(row, *target->second, peer->name));
    list->rows.push_back(row);
    list->targets.push_back(target->second);
    list->first.push_back(list->elements);
    list->elements += row.count;
  }
  list->overlaps = rows_overlap(list->rows);
  return list;
}

}  // namespace

Result<Rows> Agent::rows_at(const void* data, std::int64_t bytes) const {
  WEFT_CHECK(detail::usable(state_));
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  for (const auto& r : state_->regions.all()) {
    const auto first = reinterpret_cast<std::uintptr_t>(r->data);
    if (r->data == nullptr || at < first || at - first >= static_cast<std::uintptr_t>(r->bytes)) continue;
    const auto offset = static_cast<std::int64_t>(at - first);
    if (bytes <= 0 || bytes > r->bytes - offset)
      return bad_input("{} bytes at {} end past region {} of {} bytes", bytes, data, r->id, r->bytes);
    return Rows{.region = r->id, .offset = offset, .bytes = bytes};
  }
  return bad_input("the memory at {} is not registered", data);
}

Result<Prepared> Agent::prepare(const std::string& name, std::span<const Rows> rows) const {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (const auto problem = peer->problem()) return tl::make_unexpected(*problem);
  Prepared prepared;
  WEFT_TRY(prepared.list_, check_list(peer, rows));
  return prepared;
}

Result<Prepared> Agent::prepare_addresses(const std::string& name, std::span<const Extent> extents) const {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (const auto problem = peer->problem()) return tl::make_unexpected(*problem);
  RowsOfAddresses rows(*peer);
  for (const Extent& extent : extents) WEFT_CHECK(rows.add(extent));
  Prepared prepared;
  WEFT_TRY(prepared.list_, check_list(peer, rows.rows()));
  return prepared;
}

}  // namespace weft::transfer
