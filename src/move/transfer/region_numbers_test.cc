#include "move/transfer/region_numbers.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace weft::transfer {
namespace {

TEST(RegionNumbers, FreshOnesComeFirstThenTheOldestThatWasGivenBack) {
  RegionNumbers numbers(3);
  EXPECT_EQ(numbers.take(), 0U);
  EXPECT_EQ(numbers.take(), 1U);
  numbers.give_back(1);
  numbers.give_back(0);
  EXPECT_EQ(numbers.take(), 2U);
  EXPECT_EQ(numbers.take(), 1U);
  EXPECT_TRUE(numbers.any_left());
  EXPECT_EQ(numbers.take(), 0U);
  EXPECT_FALSE(numbers.any_left());
}

// Regions with one to three pages, fenced or not, in words that others had before. A question for a region
// that is gone names a number, a page and a generation that no other region is ever given.
TEST(RegionNumbers, NoPageOfANumberHasAGenerationTwice) {
  struct Begun {
    std::uint32_t number;
    std::vector<std::size_t> words;
    bool fenced;
  };
  std::vector<PageWord> words(9);
  std::set<std::size_t> free;
  for (std::size_t i = 0; i < words.size(); ++i) free.insert(i);
  RegionNumbers numbers(3);
  std::vector<Begun> begun;
  std::set<std::tuple<std::uint32_t, std::size_t, std::uint64_t>> given;
  std::set<std::tuple<std::uint32_t, bool, std::uint64_t>> regions;
  std::mt19937 random(7);
  for (int step = 0; step < 100'000; ++step) {
    if (numbers.any_left() && random() % 2 == 0) {
      Begun r{numbers.take(), {}, random() % 2 == 0};
      const std::size_t pages = r.fenced ? 1 + random() % 3 : 1;
      for (std::size_t i = 0; i < pages; ++i) {
        auto word = free.begin();
        std::advance(word, random() % free.size());
        r.words.push_back(*word);
        free.erase(word);
        numbers.begin(words[r.words.back()]);
      }
      const std::uint64_t generation = r.fenced ? numbers.floor() : next_generation(words[r.words[0]], 0xffff);
      ASSERT_TRUE(regions.emplace(r.number, r.fenced, generation).second);
      if (!r.fenced) {
        ASSERT_TRUE(given.emplace(r.number, 0, generation).second);
      }
      begun.push_back(std::move(r));
    } else if (!begun.empty()) {
      const std::size_t which = random() % begun.size();
      Begun& r = begun[which];
      if (r.fenced && random() % 2 == 0) {
        const std::size_t page = random() % r.words.size();
        ASSERT_TRUE(given.emplace(r.number, page, next_generation(words[r.words[page]], 1)).second);
        if (random() % 2 == 0) next_generation(words[r.words[page]], 0);
        continue;
      }
      for (const std::size_t word : r.words) {
        numbers.end(words[word]);
        free.insert(word);
      }
      numbers.give_back(r.number);
      begun.erase(begun.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  EXPECT_GT(given.size(), 10'000U);
}

}  // namespace
}  // namespace weft::transfer
