#include "move/kv/choice.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/embedded.h"
#include "base/text.h"

namespace weft::embedded {
std::span<const File> prefill_files();
}

namespace weft::kv {
namespace {

using Matrix = std::array<std::array<double, 4>, 3>;  // normal equations, and their right side

// The terms that are not 0; the others are solved for. Gauss-Jordan elimination.
std::array<double, 3> solve(Matrix m, const std::array<bool, 3>& used) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (used[i]) continue;
    for (std::size_t k = 0; k < 3; ++k) m[i][k] = m[k][i] = 0;
    m[i][i] = 1;
    m[i][3] = 0;
  }
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t r = 0; r < 3; ++r) {
      if (r == i || m[i][i] == 0) continue;
      const double by = m[r][i] / m[i][i];
      for (std::size_t k = 0; k < 4; ++k) m[r][k] -= by * m[i][k];
    }
  std::array<double, 3> x{};
  for (std::size_t i = 0; i < 3; ++i) x[i] = m[i][i] == 0 ? 0 : m[i][3] / m[i][i];
  return x;
}

}  // namespace

std::string_view name(Way way) {
  constexpr std::string_view kNames[] = {"fetch", "recompute", "both"};
  return kNames[static_cast<int>(way)];
}

Result<Prefill> fit(std::span<const Measured> points) {
  const auto shorter = [](const Measured& a, const Measured& b) { return a.tokens < b.tokens; };
  for (const Measured& p : points) {
    if (p.tokens < 1 || !(p.ms > 0) || !std::isfinite(p.ms))
      return bad_input("a prefill of {} tokens in {} ms: both must be positive", p.tokens, p.ms);
  }
  const auto [first, last] = std::minmax_element(points.begin(), points.end(), shorter);
  if (points.empty() || first->tokens == last->tokens)
    return bad_input("a prefill needs times of at least two lengths of prompts");
  if (last->ms <= first->ms) return bad_input("these times do not grow with the tokens");
  // Lengths in units of the longest, so that the equations are well conditioned.
  const auto scale = static_cast<double>(last->tokens);
  Matrix normal{};
  for (const Measured& p : points) {
    const double n = static_cast<double>(p.tokens) / scale, w = 1 / p.ms;
    const double row[] = {w, w * n, w * n * n};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t k = 0; k < 3; ++k) normal[i][k] += row[i] * row[k];
      normal[i][3] += row[i];
    }
  }
  // Among the models without a negative term, the one with the smallest maximum error wins.
  Prefill best;
  best.error = std::numeric_limits<double>::infinity();
  for (int bits = 1; bits < 8; ++bits) {
    const std::array<bool, 3> used{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    if (!used[1] && !used[2]) continue;  // time grows with tokens
    const auto x = solve(normal, used);
    if (*std::min_element(x.begin(), x.end()) < 0) continue;
    Prefill one{x[0] * 1e-3, x[1] * 1e-3 / scale, x[2] * 1e-3 / scale / scale};
    for (const Measured& p : points) one.error = std::max(one.error, std::abs(one.time(p.tokens).s() * 1e3 / p.ms - 1));
    if (one.error < best.error) best = one;
  }
  return best;
}

std::vector<std::string> shipped_prefills() {
  std::vector<std::string> names;
  const nlohmann::json shipped = nlohmann::json::parse(embedded::prefill_files()[0].text);
  for (const auto& e : shipped.at("prefills")) names.push_back(e.at("name"));
  return names;
}

Result<Prefill> parse_prefill(const std::string& text) {
  std::vector<Measured> points;
  const nlohmann::json shipped = nlohmann::json::parse(embedded::prefill_files()[0].text);
  for (const auto& e : shipped.at("prefills")) {
    if (e.at("name") != text) continue;
    for (std::size_t i = 0; i < e.at("tokens").size(); ++i) points.push_back({e.at("tokens")[i], e.at("ms")[i]});
    return fit(points);
  }
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view point = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), point.size() + 1));
    const std::string_view ms = point.substr(std::min(point.size(), point.find(':') + 1));
    double value = 0;
    const auto read = read_number(ms, value);
    if (point.find(':') == std::string_view::npos || read.ec != std::errc() || read.ptr != ms.data() + ms.size()) {
      std::string known;
      for (const std::string& name : shipped_prefills()) known += (known.empty() ? "" : ", ") + name;
      return bad_input("prefill '{}': TOKENS:MS,TOKENS:MS,... or one of {}", text, known);
    }
    WEFT_TRY(const std::int64_t tokens,
             parse_integer("tokens of a prefill", point.substr(0, point.find(':')), 1, std::int64_t{1} << 40));
    points.push_back({tokens, value});
  }
  return fit(points);
}

Choice choose(std::int64_t tokens, std::int64_t block_tokens, const Prefill& prefill,
              const std::function<Duration(std::int64_t tokens)>& fetch) {
  Choice choice;
  choice.fetch = fetch(tokens);
  choice.recompute = prefill.time(tokens);
  // Computing more of the front takes longer and leaves less to fetch: the best split is where the two times cross.
  const std::int64_t blocks = (tokens + block_tokens - 1) / block_tokens;
  const auto computed = [&](std::int64_t block) { return std::min(block * block_tokens, tokens); };
  const auto time = [&](std::int64_t block) {
    const std::int64_t n = computed(block);
    return std::max(prefill.time(n), n == tokens ? Duration() : fetch(tokens - n));
  };
  std::int64_t low = 0, high = blocks;  // low: fetching still takes longer
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::int64_t n = computed(middle);
    (prefill.time(n) < fetch(tokens - n) ? low : high) = middle;
  }
  const std::int64_t split = time(low) <= time(high) ? low : high;
  choice.computed = computed(split);
  choice.both = time(split);
  const Duration least = std::min({choice.fetch, choice.recompute, choice.both});
  choice.way = least == choice.fetch ? Way::kFetch : least == choice.recompute ? Way::kRecompute : Way::kBoth;
  return choice;
}

}  // namespace weft::kv
