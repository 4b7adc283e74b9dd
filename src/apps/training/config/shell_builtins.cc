#include "apps/training/config/shell_builtins.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace weft::training {

// "NAME=(…)" and "NAME+=(…)"; elements "[key]=value" make a map where the array is declared as one, or has words for
// keys.
void ShellBuiltins::array(const ShellToken& t, bool map) {
  const std::string name = t.text.substr(0, t.text.find_first_of("+="));
  const bool append = t.text.find('+') != std::string::npos;
  Words plain;
  bool fresh = !append;
  for (const std::string& e : t.elements) {
    const std::size_t close = e.starts_with('[') ? e.find("]=") : std::string::npos;
    if (close == std::string::npos) {
      words_.expand(e, plain);
      continue;
    }
    const std::string key = e.substr(1, close - 1), value = words_.text_of(e.substr(close + 2));
    if (words_.dry) continue;
    if (map || run_.maps.contains(name) || is_shell_name(key)) {
      if (std::exchange(fresh, false)) run_.maps[name].clear();
      run_.maps[name];
      words_.assign_element(name, key, value);
    } else {
      if (std::exchange(fresh, false)) words_.assign(name, {});
      words_.assign_element(name, key, value);
    }
  }
  if (fresh || !plain.empty()) set(name, plain, append);
}
// "NAME=value", "NAME+=value", "NAME[key]=value".
bool ShellBuiltins::assigned(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  const bool append = word[equals - 1] == '+';
  const std::string name = word.substr(0, equals - (append ? 1 : 0));
  if (const std::size_t open = name.find('['); open != std::string::npos && name.ends_with(']')) {
    if (!is_shell_name(name.substr(0, open))) return false;
    const std::string value = words_.text_of(word.substr(equals + 1));
    if (!words_.dry) words_.assign_element(name.substr(0, open), name.substr(open + 1, name.size() - open - 2), value);
    return true;
  }
  if (!is_shell_name(name)) return false;
  const std::string value = words_.text_of(word.substr(equals + 1));
  if (append && run_.variables.contains(name) && run_.variables[name].size() == 1)
    set(name, {run_.variables[name][0] + value}, false);
  else
    set(name, {value}, append);
  return true;
}
void ShellBuiltins::set(const std::string& name, const Words& words, bool append) {
  if (words_.dry) return;
  if (!append) return words_.assign(name, words);
  Words all = run_.variables[name];
  all.insert(all.end(), words.begin(), words.end());
  words_.assign(name, all);
}
// "read -r -d '' NAME <<END": the whole document; without -d its first line.
void ShellBuiltins::read_variable(const Words& words, const std::string& document) {
  std::string text = document;
  const auto ends = [](const std::string& word) { return word.starts_with('-') && word.ends_with('d'); };
  if (std::ranges::none_of(words, ends)) text = text.substr(0, text.find('\n'));
  while (text.ends_with('\n')) text.pop_back();
  std::vector<std::string> names;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (is_shell_name(words[i])) names.push_back(words[i]);
  // "IFS=, read A B": the last takes what is left.
  const auto own = run_.variables.find("IFS");
  const std::string between = own != run_.variables.end() && own->second.size() == 1 ? own->second[0] : " \t";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t end = i + 1 < names.size() ? text.find_first_of(between) : std::string::npos;
    words_.assign(names[i], {text.substr(0, end)});
    text = end == std::string::npos ? "" : text.substr(end + 1);
  }
}

Truth ShellBuiltins::let(const Words& words) {
  std::optional<std::int64_t> value = 0;
  for (std::size_t i = 1; i < words.size(); ++i) value = words_.number(words[i]);
  return !value ? Truth::kUnknown : *value != 0 ? Truth::kYes : Truth::kNo;
}
Truth ShellBuiltins::shift(const Words& words) {
  const auto by = words.size() > 1 ? words_.number(words[1]) : std::optional<std::int64_t>(1);
  Words& all = words_.arguments;
  if (!by || *by < 0 || *by > std::ssize(all)) return Truth::kNo;
  all.erase(all.begin(), all.begin() + *by);
  return Truth::kYes;
}
// getopts "ab:" NAME: the next of the script's options, its value in OPTARG.
Truth ShellBuiltins::next_option(const std::string& options, const std::string& name) {
  const auto own = words_.number("OPTIND");
  const std::int64_t at = own.value_or(1) - 1;
  const Words& all = words_.arguments;
  const auto end = [&] { return words_.assign(name, {"?"}), Truth::kNo; };
  if (at < 0 || at >= std::ssize(all)) return end();
  const std::string word = all[static_cast<std::size_t>(at)];
  if (word.size() < 2 || word[0] != '-' || word == "--") return end();
  if (letter_ == 0) letter_ = 1;
  const char letter = word[letter_++];
  const std::size_t known = letter == ':' ? std::string::npos : options.find(letter);
  std::int64_t next = at;
  if (known != std::string::npos && options.substr(known + 1).starts_with(':')) {
    if (letter_ < word.size()) {
      words_.assign("OPTARG", {word.substr(letter_)});
    } else {
      ++next;
      words_.assign("OPTARG", {next < std::ssize(all) ? all[static_cast<std::size_t>(next)] : ""});
    }
    letter_ = word.size();
  }
  if (letter_ >= word.size()) {
    ++next;
    letter_ = 0;
  }
  words_.assign("OPTIND", {std::to_string(next + 1)});
  words_.assign(name, {known == std::string::npos ? "?" : std::string(1, letter)});
  return Truth::kYes;
}

}  // namespace weft::training
