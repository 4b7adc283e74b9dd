#include "machine/import/hostlist.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "base/text.h"

namespace weft::topology {
namespace {

constexpr std::size_t kMostNames = 262'144;
constexpr std::size_t kMostDigits = 9;

// "07-10" to 07, 08, 09, 10.
Status expand_range(std::string_view range, std::vector<std::string>& out) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash),
                         high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  if (low.size() > kMostDigits || high.size() > kMostDigits) return bad_input("'{}' is no range", range);
  WEFT_TRY(const std::int64_t first, parse_integer("range", low, 0, INT32_MAX));
  WEFT_TRY(const std::int64_t last, parse_integer("range", high, 0, INT32_MAX));
  if (last < first) return bad_input("the range '{}' runs backwards", range);
  if (static_cast<std::size_t>(last - first) >= kMostNames)
    return bad_input("'{}' is more than {} names", range, kMostNames);
  for (std::int64_t n = first; n <= last; ++n) out.push_back(fmt::format("{:0{}}", n, low.size()));
  return {};
}

// One name with brackets.
Status expand_item(std::string_view item, std::vector<std::string>& out) {
  std::vector<std::string> heads = {""};
  while (!item.empty()) {
    const std::size_t open = item.find('[');
    for (std::string& head : heads) head += item.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = item.find(']', open);
    if (close == std::string_view::npos) return bad_input("'{}' has a bracket that is not closed", item);
    std::string_view ranges = item.substr(open + 1, close - open - 1);
    std::vector<std::string> numbers;
    while (!ranges.empty()) {
      const std::string_view range = ranges.substr(0, ranges.find(','));
      ranges.remove_prefix(std::min(ranges.size(), range.size() + 1));
      WEFT_CHECK(expand_range(range, numbers));
    }
    if (numbers.empty()) return bad_input("'{}' has empty brackets", item);
    if (heads.size() * numbers.size() > kMostNames) return bad_input("more than {} names", kMostNames);
    std::vector<std::string> longer;
    for (const std::string& head : heads)
      for (const std::string& number : numbers) longer.push_back(head + number);
    heads = std::move(longer);
    item.remove_prefix(close + 1);
  }
  out.insert(out.end(), heads.begin(), heads.end());
  if (out.size() > kMostNames) return bad_input("more than {} names", kMostNames);
  return {};
}

// "tux07" to "tux" and "07".
std::pair<std::string_view, std::string_view> split_number(std::string_view name) {
  std::size_t digits = 0;
  while (digits < name.size() && digits < kMostDigits &&
         std::isdigit(static_cast<unsigned char>(name[name.size() - 1 - digits])))
    ++digits;
  return {name.substr(0, name.size() - digits), name.substr(name.size() - digits)};
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  std::vector<std::string> names;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if ((c != ',' || depth > 0) && at < text.size()) continue;
    if (at > start) WEFT_CHECK(expand_item(text.substr(start, at - start), names));
    start = at + 1;
  }
  return names;
}

std::string compress_hostlist(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size();) {
    const auto [prefix, first] = split_number(names[i]);
    // Names of one prefix, as a list of ranges. A range keeps the width of its first number: 7-12, 07-12.
    std::string ranges;
    std::size_t j = i, members = 0;
    while (j < names.size() && !first.empty()) {
      const auto [p, low] = split_number(names[j]);
      if (p != prefix || low.empty()) break;
      std::size_t k = j + 1;
      std::int64_t value = std::stoll(std::string(low));
      while (k < names.size()) {
        const auto [q, next] = split_number(names[k]);
        if (q != prefix || next != fmt::format("{:0{}}", value + 1, low.size())) break;
        ++value, ++k;
      }
      ranges += fmt::format("{}{}", ranges.empty() ? "" : ",", low);
      if (k - j > 1) ranges += fmt::format("-{:0{}}", value, low.size());
      members += k - j;
      j = k;
    }
    if (!text.empty()) text += ',';
    if (members <= 1) {
      text += names[i];
      j = i + 1;
    } else {
      text += fmt::format("{}[{}]", prefix, ranges);
    }
    i = j;
  }
  return text;
}

}  // namespace weft::topology
