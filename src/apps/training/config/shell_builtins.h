#pragma once

#include <string>

#include "apps/training/config/shell_expansion.h"
#include "apps/training/config/shell_tests.h"
#include "apps/training/config/shell_words.h"

namespace weft::training {

// Builtins change a script's variables: assignments, read, let, shift, getopts.
class ShellBuiltins {
 public:
  using Words = ShellExpansion::Words;

  ShellBuiltins(ShellRun& run, ShellExpansion& words) : run_(run), words_(words) {}

  void array(const ShellToken& t, bool map);
  bool assigned(const std::string& word);  // false: it is no assignment
  void read_variable(const Words& words, const std::string& document);
  Truth let(const Words& words);
  Truth shift(const Words& words);
  Truth next_option(const std::string& options, const std::string& name);

 private:
  void set(const std::string& name, const Words& words, bool append);

  ShellRun& run_;
  ShellExpansion& words_;
  std::size_t letter_ = 0;  // of the word that getopts reads; 0: it begins another
};

}  // namespace weft::training
