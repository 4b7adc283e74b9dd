#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace weft {

// A list that holds up to N values without allocating: most steps have one or two operands, a few have hundreds.
// Requires: T is trivially copyable.
template <class T, std::size_t N>
class SmallList {
 public:
  SmallList() = default;
  SmallList(const SmallList& o) : size_(o.size_), inline_(o.inline_) {
    if (size_ > N) spill_ = std::make_unique<std::vector<T>>(*o.spill_);
  }
  SmallList(SmallList&& o) noexcept
      : size_(std::exchange(o.size_, 0)), inline_(o.inline_), spill_(std::move(o.spill_)) {}
  SmallList& operator=(SmallList o) noexcept {
    size_ = o.size_;
    inline_ = o.inline_;
    spill_.swap(o.spill_);
    return *this;
  }
  // From one value or more. Not an initializer_list: g++ 12 cannot keep one across a co_yield.
  template <class... Rest>
  SmallList(const T& first, const Rest&... rest) {
    push_back(first);
    (push_back(rest), ...);
  }

  void push_back(const T& v) {
    if (size_ == N && spill_ == nullptr) spill_ = std::make_unique<std::vector<T>>();
    if (size_ == N) spill_->assign(inline_.begin(), inline_.end());
    if (size_ >= N)
      spill_->push_back(v);
    else
      inline_[size_] = v;
    ++size_;
  }
  // Requires: not empty.
  void pop_back() {
    if (--size_ == N) std::copy_n(spill_->begin(), N, inline_.begin());
    if (size_ > N) spill_->pop_back();
  }
  void clear() { size_ = 0; }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return size_ > N ? spill_->data() : inline_.data(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return size_ > N ? spill_->data() : inline_.data(); }
  const T* end() const { return begin() + size_; }
  T& operator[](std::size_t i) { return begin()[i]; }
  const T& operator[](std::size_t i) const { return begin()[i]; }

  bool operator==(const SmallList& o) const { return std::equal(begin(), end(), o.begin(), o.end()); }

 private:
  std::size_t size_ = 0;
  std::array<T, N> inline_{};
  std::unique_ptr<std::vector<T>> spill_;  // all values, where there are more than N; keeps its memory
};

}  // namespace weft
