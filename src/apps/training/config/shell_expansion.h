#pragma once

#include <string>
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

  Words arguments;   // of the function that runs
  bool dry = false;  // inside a branch that is not taken: nothing is assigned

 private:
  std::size_t in_quotes(const std::string& word, std::size_t i, Words& pieces);
  void split(const Words& values, Words& pieces) const;
  Words variable(const std::string& word, std::size_t& i);
  Words value_of(const std::string& name, const std::string& otherwise);
  Words braced(const std::string& whole);
  std::string numbers_in(const std::string& text);
  Words substituted(const std::string& whole);

  ShellRun& run_;
  int depth_ = 0;
  bool splits_ = true;  // expansions are split into words at blanks
};

bool is_shell_name(std::string_view word);

}  // namespace weft::training
