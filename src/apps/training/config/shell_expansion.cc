#include "apps/training/config/shell_expansion.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "apps/training/config/shell_arithmetic.h"
#include "apps/training/config/shell_parameters.h"
#include "apps/training/config/shell_tests.h"
#include "apps/training/config/shell_words.h"

namespace weft::training {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kMostWords = 1 << 16;  // of one expansion

bool name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

bool is_shell_name(std::string_view word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::ranges::all_of(word, name_char);
}

// One word as text: expanded, not split.
std::string ShellExpansion::text_of(const std::string& word) {
  Words words;
  const bool splits = std::exchange(splits_, false);
  expand(word, words);
  splits_ = splits;
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i) all += (i > 0 ? " " : "") + words[i];
  return all;
}

// Appends the words that `word` expands to.
void ShellExpansion::expand(const std::string& word, Words& out) {
  if (out.size() > kMostWords) return;
  Words pieces{""};
  bool quoted_any = false;
  for (std::size_t i = 0; i < word.size();) {
    const char c = word[i];
    if (c == '\\' && i + 1 < word.size()) {
      pieces.back() += word[i + 1];
      i += 2;
    } else if (c == '\'') {
      const std::size_t end = std::min(word.find('\'', i + 1), word.size());
      pieces.back() += word.substr(i + 1, end - i - 1);
      quoted_any = true;
      i = end + 1;
    } else if (c == '"') {
      quoted_any = true;
      i = in_quotes(word, i + 1, pieces);
    } else if (c == '$' && i + 1 < word.size() && word[i + 1] == '\'') {
      i = in_escapes(word, i + 2, pieces.back());
      quoted_any = true;
    } else if (c == '$' && i + 1 < word.size() && word[i + 1] == '"') {
      ++i;  // a text that may be translated
    } else if (c == '`') {
      const std::size_t end = end_of_part(word, i);
      pieces.back() += left(word.substr(i, end - i))[0];
      i = end;
    } else if (c == '$') {
      split(variable(word, i), pieces);
    } else {
      pieces.back() += c;
      ++i;
    }
  }
  for (std::size_t p = 0; p < pieces.size(); ++p)
    if (!pieces[p].empty() || quoted_any || !splits_) out.push_back(pieces[p]);
}
std::size_t ShellExpansion::in_quotes(const std::string& word, std::size_t i, Words& pieces) {
  while (i < word.size() && word[i] != '"') {
    if (word[i] == '\\' && i + 1 < word.size() &&
        std::string_view("\\\"$`\n").find(word[i + 1]) != std::string_view::npos) {
      if (word[i + 1] != '\n') pieces.back() += word[i + 1];
      i += 2;
    } else if (word[i] == '$') {
      const std::size_t from = i;
      const Words values = variable(word, i, true);
      const std::string own = word.substr(from, i - from);
      const bool each = own.find("[@]") != std::string::npos || own == "$@" || own.starts_with("${@");
      for (std::size_t v = 0; v < values.size(); ++v) {
        if (v > 0 && each)
          pieces.emplace_back();
        else if (v > 0)
          pieces.back() += ' ';
        pieces.back() += values[v];
      }
    } else {
      pieces.back() += word[i++];
    }
  }
  return i + 1;
}
// $'…' from behind its quote on; the position behind it.
std::size_t ShellExpansion::in_escapes(const std::string& word, std::size_t i, std::string& piece) const {
  for (; i < word.size() && word[i] != '\''; ++i) {
    if (word[i] == '\\' && i + 1 < word.size()) {
      const char c = word[++i];
      piece += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    } else {
      piece += word[i];
    }
  }
  return i + 1;
}
// Cuts values at blanks. The text of a command whose output is not known stays whole: "$(cat model.txt)".
void ShellExpansion::split(const Words& values, Words& pieces) const {
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (v > 0) pieces.emplace_back();
    for (std::size_t i = 0; i < values[v].size();) {
      const std::string& value = values[v];
      const bool command = value[i] == '`' || value.substr(i, 2) == "$(" || value.substr(i, 2) == "${";
      const std::size_t end = command ? std::min(end_of_part(value, i), value.size()) : i + 1;
      if (splits_ && !command && std::isspace(static_cast<unsigned char>(value[i])) != 0) {
        if (!pieces.back().empty()) pieces.emplace_back();
      } else {
        pieces.back() += value.substr(i, end - i);
      }
      i = end;
    }
  }
}

// Expands what stands at word[i], a '$'; moves i past it.
ShellExpansion::Words ShellExpansion::variable(const std::string& word, std::size_t& i, bool quoted) {
  const std::size_t from = i;
  if (i + 1 < word.size() && (word[i + 1] == '(' || word[i + 1] == '{')) {
    i = end_of_part(word, i, quoted);
    const std::string whole = word.substr(from, i - from);
    if (whole.starts_with("$((") && whole.ends_with("))")) {
      const auto value = number(whole.substr(3, whole.size() - 5));
      return value ? Words{std::to_string(*value)} : left(whole);
    }
    if (whole.back() != (whole[1] == '(' ? ')' : '}')) return {whole};
    return whole[1] == '(' ? substituted(whole) : braced(whole);
  }
  std::size_t end = i + 1;
  if (end < word.size() && (std::isdigit(static_cast<unsigned char>(word[end])) != 0 || word[end] == '@' ||
                            word[end] == '*' || word[end] == '#' || word[end] == '?'))
    ++end;
  else
    while (end < word.size() && name_char(word[end])) ++end;
  const std::string name = word.substr(i + 1, end - i - 1);
  i = std::max(end, i + 1);
  if (name.empty()) return {"$"};
  if (name == "@" || name == "*") return arguments;
  return value_of(name).value_or(left("$" + name));
}

// What only the running script knows stays as it is written.
ShellExpansion::Words ShellExpansion::left(const std::string& text) const {
  if (!dry) run_.left.try_emplace(text, line);
  return {text};
}

std::optional<ShellExpansion::Words> ShellExpansion::value_of(const std::string& name) const {
  if (name == "@" || name == "*") return arguments;
  if (name == "#") return arguments.empty() ? std::nullopt : std::optional(Words{std::to_string(arguments.size())});
  if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
    const auto at = static_cast<std::size_t>(std::strtoul(name.c_str(), nullptr, 10));
    return at >= 1 && at <= arguments.size() ? std::optional(Words{arguments[at - 1]}) : std::nullopt;
  }
  if (const auto map = run_.maps.find(name); map != run_.maps.end()) {
    Words all;
    for (const auto& [key, value] : map->second) all.push_back(value);
    return all;
  }
  const auto found = run_.variables.find(name);
  return found == run_.variables.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ShellExpansion::Words> ShellExpansion::element_of(const std::string& name, const std::string& key) {
  if (const auto map = run_.maps.find(name); map != run_.maps.end()) {
    const std::string own = text_of(key);
    if (left_to_the_shell(own)) return std::nullopt;
    const auto at = map->second.find(own);
    return Words{at == map->second.end() ? "" : at->second};
  }
  const auto found = run_.variables.find(name);
  if (found == run_.variables.end()) return std::nullopt;
  const Words all = found->second;
  const auto at = number(key);
  if (!at) return std::nullopt;
  const std::int64_t place = *at + (*at < 0 ? std::ssize(all) : 0);
  return Words{place >= 0 && place < std::ssize(all) ? all[static_cast<std::size_t>(place)] : ""};
}

std::optional<std::int64_t> ShellExpansion::number(const std::string& expression) {
  if (++depth_ > kDeepest) return --depth_, std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < expression.size();) {
    if (expression[i] == '$') {
      const Words words = variable(expression, i);
      text += words.empty() ? "0" : words[0];
    } else if (expression[i] != '"') {
      text += expression[i++];
    } else {
      ++i;
    }
  }
  const auto base = [](const std::string& name) { return name.substr(0, name.find('[')); };
  const ShellNumbers numbers{
      [&](const std::string& name) -> std::optional<std::string> {
        const std::string own = base(name);
        const auto value =
            own == name ? value_of(name) : element_of(own, name.substr(own.size() + 1, name.size() - own.size() - 2));
        if (!value || value->empty() || left_to_the_shell((*value)[0])) return std::nullopt;
        return (*value)[0];
      },
      [&](const std::string& name, std::int64_t value) {
        if (dry) return;
        const std::string own = base(name);
        if (own == name)
          assign(name, {std::to_string(value)});
        else
          assign_element(own, name.substr(own.size() + 1, name.size() - own.size() - 2), std::to_string(value));
      }};
  const auto value = arithmetic(text, numbers);
  --depth_;
  return value;
}

// "${NAME}", "${NAME[@]}", "${NAME[1]}", "${NAME:-x}", "${NAME-x}", "${NAME:=x}", "${NAME:+x}", "${NAME:?x}",
// "${NAME:1:2}", "${NAME##x}", "${NAME%x}", "${NAME//x/y}", "${NAME^^}", "${#NAME}", "${!NAME}".
ShellExpansion::Words ShellExpansion::braced(const std::string& whole) {
  const std::string inside = whole.substr(2, whole.size() - 3);
  if (inside.size() > 1 && inside[0] == '#') return counted(whole, inside.substr(1));
  if (inside.size() > 1 && inside[0] == '!') return indirect(whole, inside.substr(1));
  std::size_t end = 0;
  while (end < inside.size() && name_char(inside[end])) ++end;
  if (end == 0 && !inside.empty() && std::string_view("@*#").find(inside[0]) != std::string_view::npos) end = 1;
  const std::string name = inside.substr(0, end);
  std::string rest = inside.substr(end);
  const bool positional = name == "@" || name == "*";
  bool several = positional || rest.starts_with("[@]") || rest.starts_with("[*]");
  std::optional<Words> value;
  if (!positional && several) {
    value = value_of(name);
    rest.erase(0, 3);
  } else if (const std::size_t close = rest.starts_with('[') ? rest.find(']') : std::string::npos;
             close != std::string::npos) {
    value = element_of(name, rest.substr(1, close - 1));
    rest.erase(0, close + 1);
  } else {
    value = value_of(name);
  }
  if (rest.empty()) return value ? *value : left(whole);
  const bool colon = rest[0] == ':';
  if (std::string_view("-=+?").find(rest[colon && rest.size() > 1 ? 1 : 0]) != std::string_view::npos)
    return or_else(name, value, rest);
  if (!value || std::ranges::any_of(*value, [](const std::string& one) { return left_to_the_shell(one); }))
    return left(whole);
  return colon ? sliced(whole, *value, several, positional, rest.substr(1)) : changed(whole, *value, rest);
}

// "-x", ":-x", "=x", "+x", "?x" behind a name.
ShellExpansion::Words ShellExpansion::or_else(const std::string& name, const std::optional<Words>& value,
                                              std::string rest) {
  const bool colon = rest[0] == ':';
  if (colon) rest.erase(0, 1);
  const bool there = value.has_value() && !(colon && value->empty()) &&
                     !(colon && value->size() == 1 && ((*value)[0].empty() || left_to_the_shell((*value)[0])));
  const auto other = [&] {
    if (++depth_ > kDeepest) return void(--depth_), Words{};
    Words words;
    const bool splits = std::exchange(splits_, false);
    expand(rest.substr(1), words);
    splits_ = splits;
    --depth_;
    return words;
  };
  if (rest.starts_with('+')) return there ? other() : Words{};
  if (rest.starts_with('?')) return there ? *value : Words{"$" + name};
  const Words words = there ? *value : other();
  if (rest.starts_with('=') && !there && !dry) assign(name, words);
  return words;
}

// "1:2" of "${NAME:1:2}".
ShellExpansion::Words ShellExpansion::sliced(const std::string& whole, const Words& value, bool several,
                                             bool positional, const std::string& rest) {
  const std::size_t colon = rest.find(':');
  auto offset = number(rest.substr(0, colon));
  const auto length = colon == std::string::npos ? std::nullopt : number(rest.substr(colon + 1));
  if (!offset || (colon != std::string::npos && !length)) return left(whole);
  if (!several) return {part_of(value.empty() ? "" : value[0], *offset, length)};
  if (positional && *offset > 0) --*offset;  // $1 is the first
  const std::int64_t size = std::ssize(value),
                     from = std::clamp(*offset < 0 ? *offset + size : *offset, std::int64_t{0}, size);
  const std::int64_t to = length ? std::clamp(from + *length, from, size) : size;
  return {value.begin() + from, value.begin() + to};
}

// "##*x" of "${NAME##*x}", of each word.
ShellExpansion::Words ShellExpansion::changed(const std::string& whole, const Words& value, std::string operation) {
  // "\/" in a pattern stays what it is until the pattern is cut.
  for (std::size_t at = 0; (at = operation.find("\\/", at)) != std::string::npos;) operation.replace(at, 2, "\x01");
  operation = text_of(operation);
  for (std::size_t at = 0; (at = operation.find('\x01', at)) != std::string::npos; at += 2)
    operation.replace(at, 1, "\\/");
  Words out;
  for (const std::string& one : value)
    if (const auto own = changed_value(one, operation))
      out.push_back(*own);
    else
      return left(whole);
  return out;
}

// "${#NAME}", "${#NAME[@]}".
ShellExpansion::Words ShellExpansion::counted(const std::string& whole, const std::string& inside) {
  const bool all = inside.ends_with("[@]") || inside.ends_with("[*]");
  const auto value = value_of(all ? inside.substr(0, inside.size() - 3) : inside);
  if (!value || (!all && !value->empty() && left_to_the_shell((*value)[0]))) return left(whole);
  return {std::to_string(all ? value->size() : value->empty() ? 0 : (*value)[0].size())};
}

// "${!NAME}", the variable whose name is its value; "${!MAP[@]}", keys.
ShellExpansion::Words ShellExpansion::indirect(const std::string& whole, const std::string& inside) {
  if (inside.ends_with("[@]") || inside.ends_with("[*]")) {
    const std::string name = inside.substr(0, inside.size() - 3);
    Words keys;
    if (const auto map = run_.maps.find(name); map != run_.maps.end())
      for (const auto& [key, value] : map->second) keys.push_back(key);
    else if (const auto value = value_of(name))
      for (std::size_t i = 0; i < value->size(); ++i) keys.push_back(std::to_string(i));
    else
      return left(whole);
    return keys;
  }
  std::size_t end = 0;
  while (end < inside.size() && name_char(inside[end])) ++end;
  const auto name = value_of(inside.substr(0, end));
  if (!name || name->size() != 1 || !is_shell_name((*name)[0]) || ++depth_ > kDeepest) return left(whole);
  Words value = braced("${" + (*name)[0] + inside.substr(end) + "}");
  --depth_;
  return value;
}

void ShellExpansion::assign_element(const std::string& name, const std::string& key, const std::string& value) {
  constexpr std::int64_t kMostElements = 1 << 16;
  if (const auto map = run_.maps.find(name); map != run_.maps.end()) {
    const std::string own = text_of(key);
    if (!left_to_the_shell(own)) map->second[own] = value;
    return;
  }
  const auto at = number(key);
  if (!at || *at < 0 || *at > kMostElements) return;
  Words all = value_of(name).value_or(Words{});
  if (std::ssize(all) <= *at) all.resize(static_cast<std::size_t>(*at) + 1);
  all[static_cast<std::size_t>(*at)] = value;
  assign(name, all);
}

void ShellExpansion::assign(const std::string& name, Words words) {
  if (!run_.variables.contains(name) || std::ranges::find(run_.order, name) == run_.order.end())
    run_.order.push_back(name);
  run_.variables[name] = std::move(words);
}

}  // namespace weft::training
