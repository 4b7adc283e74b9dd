#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/fuzz/parsers.h"

// Replays the corpus of every parser and mutations of it, drawn by a fixed seed and bounded in time. libFuzzer explores
// further: cmake -DWEFT_FUZZ=ON with clang, then fuzz_NAME tests/fuzz/corpus/NAME.
namespace weft::fuzz {
namespace {

std::vector<std::string> corpus(std::string_view name) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(WEFT_FUZZ_CORPUS) / name))
    files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> texts;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

std::string mutate(std::string text, std::mt19937& random) {
  const auto at = [&] { return random() % (text.size() + 1); };
  for (unsigned edit = 0; edit < 1 + random() % 6; ++edit) {
    const std::size_t position = at();
    switch (random() % 5) {
      case 0:
        if (position < text.size()) text[position] = static_cast<char>(random() % 256);
        break;
      case 1:
        text.erase(position, 1 + random() % 40);
        break;
      case 2:
        text.insert(position, text.substr(at(), random() % 80));
        break;
      case 3:
        text.resize(position);  // cut short
        break;
      case 4: {  // a number out of all bounds
        const std::size_t digit = text.find_first_of("0123456789", position);
        if (digit != std::string::npos) text.replace(digit, 1, "99999999999");
        break;
      }
    }
  }
  return text;
}

class Fuzz : public testing::TestWithParam<std::size_t> {};

TEST_P(Fuzz, CorpusAndMutationsOfItNeverCrash) {
  const Parser& parser = parsers()[GetParam()];
  const std::vector<std::string> texts = corpus(parser.name);
  ASSERT_FALSE(texts.empty()) << parser.name;
  for (const std::string& text : texts) parser.run(text);
  std::mt19937 random(11);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  for (int round = 0; round < 2000 && std::chrono::steady_clock::now() < end; ++round)
    parser.run(mutate(texts[random() % texts.size()], random));
}

INSTANTIATE_TEST_SUITE_P(Parsers, Fuzz, testing::Range<std::size_t>(0, parsers().size()),
                         [](const auto& info) { return std::string(parsers()[info.param].name); });

}  // namespace
}  // namespace weft::fuzz
