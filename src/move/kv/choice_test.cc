#include "move/kv/choice.h"

#include <gtest/gtest.h>

#include <random>

namespace weft::kv {
namespace {

Duration ms(double v) { return Duration::seconds(v * 1e-3); }

TEST(Choice, APrefillIsFoundAgainFromItsTimes) {
  std::vector<Measured> points;
  for (const std::int64_t n : {512, 1024, 4096, 16384})
    points.push_back({n, 20 + 0.05 * static_cast<double>(n) + 1e-6 * static_cast<double>(n * n)});
  const auto prefill = fit(points);
  ASSERT_TRUE(prefill) << prefill.error().message;
  EXPECT_LT(prefill->error, 1e-9);
  EXPECT_NEAR(prefill->time(8192).s() * 1e3, 20 + 0.05 * 8192 + 1e-6 * 8192 * 8192, 1e-3);
  EXPECT_EQ(prefill->time(0), Duration());
}

TEST(Choice, ShippedPrefillsAreFittedWithinAFifth) {
  ASSERT_GE(shipped_prefills().size(), 3U);
  for (const std::string& name : shipped_prefills()) {
    const auto prefill = parse_prefill(name);
    ASSERT_TRUE(prefill) << name << ": " << prefill.error().message;
    EXPECT_LT(prefill->error, 0.2) << name;
    EXPECT_GT(prefill->time(8192), prefill->time(4096)) << name;
  }
}

// 10 ms per 1,000 tokens and fetching at 30 ms per 1,000 after 5 ms: of 4,000 tokens in blocks of 100, n are computed
// in n / 100 ms and the others fetched in 5 + (4000 - n) * 0.03 ms; equal at n = 3,125, so 3,100 are computed.
TEST(Choice, BothMeetWhereTheirTimesCross) {
  const Prefill prefill{.token_s = 1e-5};
  const auto fetch = [](std::int64_t n) { return ms(5 + 0.03 * static_cast<double>(n)); };
  const Choice choice = choose(4000, 100, prefill, fetch);
  EXPECT_EQ(choice.way, Way::kBoth);
  EXPECT_EQ(choice.computed, 3100);
  EXPECT_NEAR(choice.both.s() * 1e3, 5 + 0.03 * 900, 1e-6);
  EXPECT_NEAR(choice.fetch.s() * 1e3, 125, 1e-6);
  EXPECT_NEAR(choice.recompute.s() * 1e3, 40, 1e-6);
}

TEST(Choice, OneWayAloneWinsWhereTheOtherIsSlowFromTheStart) {
  const Prefill slow{.start_s = 1, .token_s = 1e-3};
  EXPECT_EQ(choose(1000, 16, slow, [](std::int64_t n) { return ms(static_cast<double>(n) * 1e-3); }).way, Way::kFetch);
  const Prefill fast{.token_s = 1e-6};
  const Choice computed = choose(1000, 16, fast, [](std::int64_t) { return ms(500); });
  EXPECT_EQ(computed.way, Way::kRecompute);
  EXPECT_EQ(computed.time(), ms(1));
}

TEST(Choice, NoSplitIsFaster) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const Prefill prefill{(random() % 50) * 1e-3, (1 + random() % 100) * 1e-6, (random() % 100) * 1e-10};
    const double start = random() % 20, rate = (1 + random() % 100) * 1e-3;
    const auto fetch = [&](std::int64_t n) { return ms(start + rate * static_cast<double>(n)); };
    const auto tokens = static_cast<std::int64_t>(1 + random() % 3000),
               block = static_cast<std::int64_t>(1 + random() % 64);
    const Choice choice = choose(tokens, block, prefill, fetch);
    Duration best = Duration::max();
    for (std::int64_t n = 0;; n = std::min(n + block, tokens)) {
      best = std::min(best, std::max(prefill.time(n), n == tokens ? Duration() : fetch(tokens - n)));
      if (n == tokens) break;
    }
    EXPECT_EQ(choice.time(), best) << i;
  }
}

TEST(Choice, SenselessPrefillsAreOneError) {
  EXPECT_EQ(parse_prefill("1024:77.9").error().message, "a prefill needs times of at least two lengths of prompts");
  EXPECT_NE(parse_prefill("gpt5").error().message.find("TOKENS:MS,TOKENS:MS"), std::string::npos);
  EXPECT_FALSE(parse_prefill("0:5,10:6"));
  EXPECT_FALSE(parse_prefill("10:-1,20:5"));
  EXPECT_FALSE(parse_prefill("10:5,20:nan"));
  EXPECT_EQ(parse_prefill("1024:900,4096:100").error().message, "these times do not grow with the tokens");
}

}  // namespace
}  // namespace weft::kv
