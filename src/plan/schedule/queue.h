#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weft::schedule {

// First in, first out; next to nothing while empty, as most connections of many are.
template <class T>
class Queue {
 public:
  bool empty() const { return taken_ == items_.size(); }
  T& front() { return items_[taken_]; }
  const T& front() const { return items_[taken_]; }
  const T& back() const { return items_.back(); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void pop_front() {
    items_[taken_] = T{};
    if (++taken_ == items_.size()) items_.clear(), taken_ = 0;
  }

 private:
  std::vector<T> items_;
  std::size_t taken_ = 0;
};

}  // namespace weft::schedule
