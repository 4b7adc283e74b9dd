#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

// Fetch a prompt's keys and values, compute them again, or both until the two meet.
namespace weft::kv {

// How long a prompt's first tokens take to be computed. Attention makes it grow faster than the tokens, so it is a
// quadratic through measured times: start + token * n + pair * n^2, all of them at least 0. A value.
struct Prefill {
  double start_s = 0, token_s = 0, pair_s = 0;
  double error = 0;  // the largest |predicted / measured - 1| of the points that it was made from

  Duration time(std::int64_t tokens) const {
    const auto n = static_cast<double>(tokens);
    return tokens == 0 ? Duration() : Duration::seconds(start_s + token_s * n + pair_s * n * n);
  }
};
struct Measured {
  std::int64_t tokens = 0;
  double ms = 0;
};
// Least squares of relative errors. Errors (bad input): fewer than two different lengths, or lengths or times that are
// not positive.
Result<Prefill> fit(std::span<const Measured> points);
// "1024:77.9,4096:390.3", tokens and milliseconds; or a name of data/kv/prefill.json. Errors (bad input): neither.
Result<Prefill> parse_prefill(const std::string& text);
std::vector<std::string> shipped_prefills();

enum class Way : std::uint8_t { kFetch, kRecompute, kBoth };
std::string_view name(Way way);

struct Choice {
  Way way = Way::kFetch;
  std::int64_t computed = 0;  // tokens from the front, when it is both; the others are fetched from the back
  Duration fetch, recompute, both;
  Duration time() const { return way == Way::kFetch ? fetch : way == Way::kRecompute ? recompute : both; }
};

// Of a prompt whose `tokens` are all stored. `fetch(n)`: the time for the last n tokens' blocks. Computing begins with
// the first block, because a token needs those before it and none behind; fetching begins with the last, so each block
// is either computed or fetched. Requires: tokens > 0, block_tokens > 0, fetch grows with n.
Choice choose(std::int64_t tokens, std::int64_t block_tokens, const Prefill& prefill,
              const std::function<Duration(std::int64_t tokens)>& fetch);

}  // namespace weft::kv
