#include "move/reshard/changes.h"

#include <algorithm>

namespace weft::reshard {

void Changes::begin(bool last_ended) {
  if (!last_ended) {
    before_.clear();
    from_before_.clear();
  }
  now_.clear();
  from_now_.clear();
}

void Changes::read_table(Rank sender, Table table) {
  auto& changed = changed_[sender];
  changed.clear();
  if (const auto old = before_.find(sender); old != before_.end() && old->second->blocks.size() == table.blocks.size())
    for (std::size_t b = 0; b < table.blocks.size(); ++b)
      if (!(old->second->blocks[b] == table.blocks[b])) changed.push_back(static_cast<std::int64_t>(b));
  now_[sender] = std::make_shared<const Table>(std::move(table));
}

void Changes::end() {
  before_ = now_;
  from_before_ = from_now_;
}

bool Changes::known(std::int64_t unit, Rank sender) const {
  const auto from = from_before_.find(unit);
  const auto old = before_.find(sender), now = now_.find(sender);
  return from != from_before_.end() && from->second == sender && old != before_.end() && now != now_.end() &&
         old->second->header.block_bytes == now->second->header.block_bytes &&
         old->second->blocks.size() == now->second->blocks.size();
}

void Changes::for_each_change(
    Rank sender, const transfer::Rows& row,
    const std::function<void(std::int64_t element, std::int64_t offset, std::int64_t bytes)>& call) const {
  const std::int64_t block = now_.at(sender)->header.block_bytes;
  const std::vector<std::int64_t>& changed = changed_.at(sender);
  auto next = changed.begin();
  for (std::int64_t e = 0; e < row.count; ++e) {
    const std::int64_t begin = row.offset + e * row.stride, end = begin + row.bytes;
    next = std::lower_bound(next, changed.end(), begin / block);
    if (next == changed.end()) return;
    if (const std::int64_t gap = *next * block - end; gap >= 0) {  // on to the element that has the next change
      if (row.count > 1) e += gap / row.stride;
      continue;
    }
    for (auto at = next; at != changed.end() && *at * block < end;) {
      const std::int64_t first = std::max(begin, *at * block);
      std::int64_t last = *at;
      while (++at != changed.end() && *at == last + 1) ++last;
      call(e, first - begin, std::min(end, (last + 1) * block) - first);
    }
  }
}

}  // namespace weft::reshard
