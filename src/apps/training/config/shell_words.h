#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::training {

// A token of a shell script: a word as it is written, an operator, an array's assignment, or a here-document.
struct ShellToken {
  enum class Kind : std::uint8_t { kWord, kOperator, kArray, kDocument, kEnd } kind = Kind::kWord;
  std::string text;  // of the word or operator ("\n" ends a line); an array's "NAME=" or "NAME+="; a document's body
  std::vector<std::string> elements;  // of an array; of a document one, its end, where that is quoted
  int line = 0;
};

// Cuts a script into tokens as POSIX's shells and bash do: quotes, escapes, comments, here-documents.
std::vector<ShellToken> shell_tokens(std::string_view text);

}  // namespace weft::training
