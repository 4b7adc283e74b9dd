#include "base/nearest_words.h"

#include <algorithm>
#include <utility>

namespace weft {

std::vector<std::string> nearest_words(std::string_view word, const std::vector<std::string>& names, std::size_t most) {
  constexpr std::size_t kLongest = 64;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  // Damerau's distance, in three rows.
  const auto distance = [&](std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= b.size(); ++j) {
        const bool same = lower(a[i - 1]) == lower(b[j - 1]);
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
      std::swap(before, last);
      std::swap(last, row);
    }
    return last[b.size()];
  };
  std::vector<std::pair<std::size_t, std::string>> found;
  if (word.empty() || word.size() > kLongest) return {};
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    const std::size_t d = distance(word, name);
    if (d <= std::max<std::size_t>(1, word.size() / 3)) found.emplace_back(d, name);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (auto& [d, name] : found)
    if (nearest.size() < most) nearest.push_back(std::move(name));
  return nearest;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : nearest_words(word, names, 3)) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? all : "did you mean " + all + "? ";
}

}  // namespace weft
