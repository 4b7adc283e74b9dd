#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Up to `most` of `names` that a misspelt `word` may mean, the nearest first: those that few insertions, deletions,
// replacements and swaps of neighbours turn into it. Case does not count.
std::vector<std::string> nearest_words(std::string_view word, const std::vector<std::string>& names, std::size_t most);

// "did you mean bench, reshard? " for an error's line; empty where nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace weft
