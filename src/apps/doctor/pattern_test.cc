#include "apps/doctor/pattern.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <set>

#include "apps/doctor/words.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> doctor_files();
}  // namespace weft::embedded

namespace weft::doctor {
namespace {

std::vector<std::vector<std::string>> cells_of(std::string_view path) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& file : embedded::doctor_files()) {
    if (file.path != path) continue;
    std::string cell;
    std::vector<std::string> row;
    for (const char c : file.text) {
      if (c == '\t' || c == '\n') {
        row.push_back(std::exchange(cell, {}));
        if (c == '\n') rows.push_back(std::exchange(row, {}));
      } else {
        cell += c;
      }
    }
  }
  return rows;
}

// std::regex is the reference: every shipped pattern on every shipped line, and on lines with random changes.
TEST(Pattern, FindsWhatStdRegexFinds) {
  std::mt19937 random(11);
  std::vector<std::string> lines;
  for (const auto& row : cells_of("data/doctor/lines.tsv"))
    if (row.size() >= 3) lines.push_back(row[2]);
  const std::size_t shipped = lines.size();
  ASSERT_GT(shipped, 200u);
  const auto any = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (std::size_t i = 0; i < 200; ++i) {
    std::string line = lines[any(shipped)];
    line[any(line.size())] = lines[any(shipped)][0];
    if (i % 2 == 0) line.erase(any(line.size()), 3);
    if (i % 3 == 0) line += lines[any(shipped)];
    lines.push_back(line);
  }
  int compared = 0;
  for (const auto& row : cells_of("data/doctor/rules.tsv")) {
    if (row.size() != 13 || row[0] == "id") continue;
    for (const std::string& expression : {row[5], row[6]}) {
      if (expression.empty()) continue;
      const auto own = Pattern::compile(expression);
      ASSERT_TRUE(own) << row[0] << ": " << own.error().message;
      const std::regex reference(expression);
      for (const std::string& line : lines) {
        if (++compared % 3 != 0) continue;  // a third is enough, and std::regex is slow
        EXPECT_EQ(own->search(line), std::regex_search(line, reference)) << row[0] << ": " << expression << "\n"
                                                                         << line;
      }
    }
  }
}

TEST(Pattern, SaysWhatItDoesNotUnderstand) {
  for (const char* bad : {"(", ")", "[a", "*", "a{2", "a{200}", "(a)\\1", "\\"}) {
    const auto pattern = Pattern::compile(bad);
    EXPECT_FALSE(pattern) << bad;
  }
}

TEST(Pattern, FindsWhatStandsBehindALongMiddle) {
  const Pattern pattern = Pattern::compile("from .*(?!x)y.* to (a|b)+$").value();
  EXPECT_TRUE(pattern.search("from " + std::string(1500, '-') + "y" + std::string(1500, '-') + " to abab"));
  EXPECT_FALSE(pattern.search("from " + std::string(1500, '-') + "y" + std::string(1500, '-') + " to c"));
}

TEST(Pattern, GivesUpOnATextThatWouldTakeForever) {
  const auto pattern = Pattern::compile("(a*)*(a*)*b");
  ASSERT_TRUE(pattern);
  EXPECT_FALSE(pattern->search(std::string(4096, 'a')));
}

TEST(Words, FindsAllWordsAlsoThoseInsideOthers) {
  Words words;
  for (const auto& [word, owner] : {std::pair{"he", 0}, {"she", 1}, {"hers", 2}, {"his", 3}, {"he", 4}})
    words.add(word, owner);
  words.build();
  std::set<int> found;
  words.find("ushers", [&](int owner) { found.insert(owner); });
  EXPECT_EQ(found, (std::set<int>{0, 1, 2, 4}));
}

}  // namespace
}  // namespace weft::doctor
