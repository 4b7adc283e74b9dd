#pragma once

#include <cstdint>
#include <vector>

namespace weft::cost {

// Many queues, most of them empty at any time: what is in them lies in one pool. First in, first out. A value.
template <class T>
class Queues {
 public:
  // Requires: nothing is asked of queues from `count` on.
  explicit Queues(std::size_t count) : ends_(count) {}

  bool empty(std::uint32_t queue) const { return ends_[queue].first == kNone; }
  // Requires: not empty. Valid until the next push.
  T& front(std::uint32_t queue) { return items_[ends_[queue].first].value; }
  T& back(std::uint32_t queue) { return items_[ends_[queue].last].value; }
  void push(std::uint32_t queue, const T& value) {
    Ends& ends = ends_[queue];
    const std::uint32_t item = take_item();
    items_[item] = {value, kNone};
    (ends.first == kNone ? ends.first : items_[ends.last].next) = item;
    ends.last = item;
  }
  // Requires: not empty.
  void pop(std::uint32_t queue) {
    Ends& ends = ends_[queue];
    const std::uint32_t item = ends.first;
    ends.first = items_[item].next;
    items_[item].next = free_;
    free_ = item;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Ends {
    std::uint32_t first = kNone, last = kNone;
  };
  struct Item {
    T value;
    std::uint32_t next;
  };

  std::uint32_t take_item() {
    if (free_ == kNone) {
      items_.emplace_back();
      return static_cast<std::uint32_t>(items_.size() - 1);
    }
    const std::uint32_t item = free_;
    free_ = items_[item].next;
    return item;
  }

  std::vector<Ends> ends_;
  std::vector<Item> items_;
  std::uint32_t free_ = kNone;  // a list of items in no queue
};

}  // namespace weft::cost
