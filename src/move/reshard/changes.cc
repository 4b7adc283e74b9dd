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

void Changes::end() {
  before_ = now_;
  from_before_ = from_now_;
}

bool Changes::known(std::int64_t unit, Rank sender) const {
  const auto from = from_before_.find(unit);
  const auto old = before_.find(sender), now = now_.find(sender);
  return from != from_before_.end() && from->second == sender && old != before_.end() && now != now_.end() &&
         old->second.header.block_bytes == now->second.header.block_bytes &&
         old->second.blocks.size() == now->second.blocks.size();
}

void Changes::for_each_change(
    Rank sender, const transfer::Rows& row,
    const std::function<void(std::int64_t element, std::int64_t offset, std::int64_t bytes)>& call) const {
  const Table &old = before_.at(sender), &now = now_.at(sender);
  const std::int64_t block = now.header.block_bytes;
  for (std::int64_t e = 0; e < row.count; ++e) {
    const std::int64_t begin = row.offset + e * row.stride, end = begin + row.bytes;
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t first = at;
      const bool change = changed(old, now, at / block);
      do {
        at = std::min(end, (at / block + 1) * block);
      } while (at < end && changed(old, now, at / block) == change);
      if (change) call(e, first - begin, at - first);
    }
  }
}

}  // namespace weft::reshard
