#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Up to `most` of `names` that a misspelt `word` may mean, the nearest first: those that few insertions, deletions,
// replacements and swaps of neighbours turn into it. Case does not count.
std::vector<std::string> nearest_words(std::string_view word, const std::vector<std::string>& names, std::size_t most);

}  // namespace weft
