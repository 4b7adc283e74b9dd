#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::training {

// A token of a shell script: a word as it is written, an operator, an array's assignment, a here-document, or the
// expression of (( )).
struct ShellToken {
  enum class Kind : std::uint8_t { kWord, kOperator, kArray, kDocument, kArithmetic, kEnd } kind = Kind::kWord;
  std::string text;  // of the word or operator ("\n" ends a line); an array's "NAME=" or "NAME+="; a document's body
  std::vector<std::string> elements;  // of an array; of a document one, its end, where that is quoted
  int line = 0;
};

// A quote, "${" or "$(" without an end, and the line that it stands in.
struct Unclosed {
  int line = 0;  // 0: all are closed
  std::string what;
};

// Cuts a script into tokens as POSIX's shells and bash do: quotes, escapes, comments, here-documents. `unclosed`: gets
// the first of them; may be null.
std::vector<ShellToken> shell_tokens(std::string_view text, Unclosed* unclosed = nullptr);

// The position behind the quoted or bracketed part that starts at `at`: '…', "…", `…`, ${…}, $(…). `quoted`: it stands
// in double quotes.
std::size_t end_of_part(std::string_view text, std::size_t at, bool quoted = false);

}  // namespace weft::training
