#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/training/config/shell.h"

namespace weft::training {

// Words of a shell script, expanded: quotes, variables, ${NAME:-x}, $((…)), here-documents in $(cat <<END …). What only
// the running script knows stays as it is written.
class ShellExpansion {
 public:
  using Words = std::vector<std::string>;

  explicit ShellExpansion(ShellRun& run) : run_(run) {}

  // Appends the words that `word` expands to.
  void expand(const std::string& word, Words& out);
  // One word as text: expanded, not split.
  std::string text_of(const std::string& word);
  // The body of a here-document whose end is not quoted: variables are expanded, quotes are letters.
  std::string document(const std::string& body);
  void assign(const std::string& name, Words words);

  // "NAME[key]=value": an element of an array, or of a map. Nothing where the key is not known.
  void assign_element(const std::string& name, const std::string& key, const std::string& value);
  // The value of an expression as $(( )) has it; assignments in it count. Nothing: it is not known.
  std::optional<std::int64_t> number(const std::string& expression);

  Words arguments;   // of the function that runs
  bool dry = false;  // inside a branch that is not taken: nothing is assigned
  int line = 0;      // of the command that is expanded

 private:
  std::size_t in_quotes(const std::string& word, std::size_t i, Words& pieces);
  std::size_t in_escapes(const std::string& word, std::size_t i, std::string& piece) const;
  void split(const Words& values, Words& pieces) const;
  Words variable(const std::string& word, std::size_t& i, bool quoted = false);
  std::optional<Words> value_of(const std::string& name) const;
  std::optional<Words> element_of(const std::string& name, const std::string& key);
  Words left(const std::string& text) const;
  Words braced(const std::string& whole);
  Words counted(const std::string& whole, const std::string& inside);
  Words indirect(const std::string& whole, const std::string& inside);
  Words or_else(const std::string& name, const std::optional<Words>& value, std::string rest);
  Words sliced(const std::string& whole, const Words& value, bool several, bool positional, const std::string& rest);
  Words changed(const std::string& whole, const Words& value, std::string operation);
  Words substituted(const std::string& whole);
  Words output_of(const Words& words, bool calculated);

  ShellRun& run_;
  int depth_ = 0;
  bool splits_ = true;  // expansions are split into words at blanks
};

bool is_shell_name(std::string_view word);

}  // namespace weft::training
