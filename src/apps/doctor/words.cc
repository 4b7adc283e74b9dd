#include "apps/doctor/words.h"

#include <algorithm>
#include <deque>

namespace weft::doctor {

void Words::add(std::string_view word, int owner) {
  if (!word.empty()) entries_.push_back({std::string(word), owner});
}

void Words::build() {
  constexpr std::uint32_t kNone = 0xffffffff;
  class_of_.fill(0);
  classes_ = 1;
  for (const Entry& entry : entries_)
    for (const char c : entry.word)
      if (auto& k = class_of_[static_cast<unsigned char>(c)]; k == 0 && classes_ < 255)
        k = static_cast<std::uint8_t>(classes_++);
  next_.assign(classes_, kNone);
  std::vector<std::vector<int>> owners(1);
  for (const Entry& entry : entries_) {
    std::uint32_t state = 0;
    for (const char c : entry.word) {
      const std::size_t at = state * classes_ + class_of_[static_cast<unsigned char>(c)];
      if (next_[at] == kNone) {
        next_[at] = static_cast<std::uint32_t>(owners.size());
        owners.emplace_back();
        next_.resize(next_.size() + classes_, kNone);
      }
      state = next_[at];
    }
    owners[state].push_back(entry.owner);
  }
  // Breadth first: where a state has no way on, it goes on as the longest suffix that is a state does.
  std::vector<std::uint32_t> suffix(owners.size(), 0);
  std::deque<std::uint32_t> queue;
  for (std::uint32_t k = 0; k < classes_; ++k) {
    auto& to = next_[k];
    if (to == kNone)
      to = 0;
    else
      queue.push_back(to);
  }
  while (!queue.empty()) {
    const std::uint32_t state = queue.front();
    queue.pop_front();
    const auto& inherited = owners[suffix[state]];
    owners[state].insert(owners[state].end(), inherited.begin(), inherited.end());
    std::ranges::sort(owners[state]);
    owners[state].erase(std::ranges::unique(owners[state]).begin(), owners[state].end());
    for (std::uint32_t k = 0; k < classes_; ++k) {
      auto& to = next_[state * classes_ + k];
      const std::uint32_t fallback = next_[suffix[state] * classes_ + k];
      if (to == kNone) {
        to = fallback;
      } else {
        suffix[to] = fallback;
        queue.push_back(to);
      }
    }
  }
  outputs_.assign(1, 0);
  owners_.clear();
  for (const auto& list : owners) {
    owners_.insert(owners_.end(), list.begin(), list.end());
    outputs_.push_back(static_cast<std::uint32_t>(owners_.size()));
  }
}

}  // namespace weft::doctor
