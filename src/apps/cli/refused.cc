#include "apps/cli/refused.h"

#include <algorithm>

namespace weft::cli {
namespace {

// Names of the options given on the command line, without dashes.
std::vector<std::string> given_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && !option->get_lnames().empty()) names.push_back(option->get_lnames().front());
  return names;
}

}  // namespace

Status only_options(const CLI::App& command, std::string_view what,
                    std::initializer_list<std::string_view> meaningful) {
  for (const std::string& name : given_options(command))
    if (std::ranges::find(meaningful, name) == meaningful.end())
      return bad_input("--{} has no meaning for {}", name, what);
  return {};
}

Status no_options(const CLI::App& command, std::string_view what, std::initializer_list<std::string_view> refused) {
  for (const std::string& name : given_options(command))
    if (std::ranges::find(refused, name) != refused.end()) return bad_input("--{} has no meaning for {}", name, what);
  return {};
}

}  // namespace weft::cli
