#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

// Finds which of many words are in a text, in one pass over it (Aho and Corasick, 1975).
class Words {
 public:
  // Each word belongs to an owner; several words may have one owner, and several owners one word.
  void add(std::string_view word, int owner);
  void build();  // once, behind the last add()

  // Calls found(owner) for each word that ends at each byte; an owner may be called more than once.
  template <typename Found>
  void find(std::string_view text, const Found& found) const {
    std::uint32_t state = 0;
    for (const char c : text) {
      state = next_[state * classes_ + class_of_[static_cast<unsigned char>(c)]];
      if (outputs_[state + 1] != outputs_[state])
        for (std::uint32_t o = outputs_[state]; o < outputs_[state + 1]; ++o) found(owners_[o]);
    }
  }

 private:
  struct Entry {
    std::string word;
    int owner;
  };
  std::vector<Entry> entries_;
  std::array<std::uint8_t, 256> class_of_{};  // bytes that no word has are class 0
  std::uint32_t classes_ = 1;
  std::vector<std::uint32_t> next_;     // [state * classes + class]
  std::vector<std::uint32_t> outputs_;  // owners of a state: owners_[outputs_[s]] to owners_[outputs_[s + 1]]
  std::vector<int> owners_;
};

}  // namespace weft::doctor
