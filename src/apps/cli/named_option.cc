#include "apps/cli/named_option.h"

#include <string_view>

namespace weft::cli {
namespace {

// Whether `value` is the word, or a list or a specification that has it: "ring,rnig", "dgx-h10:nodes=2", "packet:x=1".
bool has_word(std::string_view value, std::string_view word) {
  for (std::size_t at = value.find(word); at != std::string_view::npos; at = value.find(word, at + 1)) {
    const auto ends = [&](std::size_t i) {
      return i >= value.size() || std::string_view(",:=").find(value[i]) != std::string_view::npos;
    };
    if ((at == 0 || ends(at - 1)) && ends(at + word.size())) return true;
  }
  return false;
}

}  // namespace

std::string with_option(const CLI::App& command, const std::string& message) {
  for (const CLI::App* below : command.get_subcommands())
    if (const std::string named = with_option(*below, message); named != message) return named;
  const std::size_t open = message.find('\''), close = message.find('\'', open == std::string::npos ? open : open + 1);
  if (close == std::string::npos || close == open + 1) return message;
  const std::string word = message.substr(open + 1, close - open - 1);
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    for (const std::string& value : option->results()) {
      if (!has_word(value, word)) continue;
      return message.find(name) == std::string::npos ? name + " " + value + ": " + message : message;
    }
  }
  return message;
}

}  // namespace weft::cli
