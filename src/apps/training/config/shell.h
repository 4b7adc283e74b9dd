#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::training {

// A script is read for what it would run, as far as its text says: variables, arrays, ${NAME:-default} and its like,
// arithmetic, if, case, loops, getopts, functions, here-documents, sourced files. Nothing is executed. What only the
// running script knows (the environment, arguments, results of commands) stays as it is written, "$NAME".
struct ShellRun {
  std::vector<std::vector<std::string>> commands;                  // each with its words, in order
  std::map<std::string, std::vector<std::string>> variables;       // at the end; an array has several words
  std::map<std::string, std::map<std::string, std::string>> maps;  // associative arrays (declare -A)
  std::vector<std::string> order;                                  // of the variables' first assignments
  std::map<std::string, int> left;           // expansions that stay as they are written, and the line of the first
  std::map<std::string, std::string> files;  // that here-documents write, by their paths
  std::vector<std::string> notes;            // what could not be decided, with its line
  int unclosed_line = 0;                     // of a quote or bracket without an end; 0: none
  std::string unclosed;
};

// `source`: the text of a file that the script sources, or none. `arguments`: of the script, $1 and so on.
ShellRun run_shell(std::string_view text, const std::function<std::optional<std::string>(const std::string&)>& source,
                   const std::vector<std::string>& arguments = {});

}  // namespace weft::training
