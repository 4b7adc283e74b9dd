#include "apps/training/config/shell_expansion.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "apps/training/config/shell_arithmetic.h"
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
  splits_ = false;
  expand(word, words);
  splits_ = true;
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
    } else if (c == '$') {
      const bool command = word.substr(i).starts_with("$(");
      const Words values = variable(word, i);
      // The text of a command whose output is not known stays one word: "$(dirname $0)/common.sh".
      if (command && values.size() == 1 && values[0].starts_with("$("))
        pieces.back() += values[0];
      else
        split(values, pieces);
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
      const bool each = word.substr(i).find("[@]") != std::string::npos;
      const Words values = variable(word, i);
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
void ShellExpansion::split(const Words& values, Words& pieces) const {
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (v > 0) pieces.emplace_back();
    for (const char c : values[v]) {
      if (splits_ && std::isspace(static_cast<unsigned char>(c)) != 0) {
        if (!pieces.back().empty()) pieces.emplace_back();
      } else {
        pieces.back() += c;
      }
    }
  }
}

// Expands what stands at word[i], a '$'; moves i past it.
ShellExpansion::Words ShellExpansion::variable(const std::string& word, std::size_t& i) {
  const std::size_t from = i;
  if (word.substr(i).starts_with("$((")) {
    const std::size_t end = word.find("))", i);
    if (end != std::string::npos) {
      i = end + 2;
      const std::string inside = word.substr(from + 3, end - from - 3);
      const auto value = arithmetic(numbers_in(inside));
      return {value ? std::to_string(*value) : word.substr(from, i - from)};
    }
  }
  if (i + 1 < word.size() && (word[i + 1] == '(' || word[i + 1] == '{')) {
    const char open = word[i + 1], close = open == '(' ? ')' : '}';
    int depth = 0;
    for (++i; i < word.size(); ++i) {
      if (word[i] == open) ++depth;
      if (word[i] == close && --depth == 0) break;
    }
    i = std::min(i + 1, word.size());
    const std::string whole = word.substr(from, i - from);
    return open == '(' ? substituted(whole) : braced(whole);
  }
  std::size_t end = i + 1;
  if (end < word.size() && (std::isdigit(static_cast<unsigned char>(word[end])) != 0 || word[end] == '@' ||
                            word[end] == '*' || word[end] == '#' || word[end] == '?'))
    ++end;
  else
    while (end < word.size() && name_char(word[end])) ++end;
  const std::string name = word.substr(i + 1, end - i - 1);
  i = std::max(end, i + 1);
  return value_of(name, "$" + name);
}
ShellExpansion::Words ShellExpansion::value_of(const std::string& name, const std::string& otherwise) {
  if (name == "@" || name == "*") return arguments.empty() ? Words{} : arguments;
  if (name == "#" && !arguments.empty()) return {std::to_string(arguments.size())};
  if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
    const auto at = static_cast<std::size_t>(std::strtoul(name.c_str(), nullptr, 10));
    return at >= 1 && at <= arguments.size() ? Words{arguments[at - 1]} : Words{otherwise};
  }
  const auto found = run_.variables.find(name);
  return found == run_.variables.end() ? Words{otherwise} : found->second;
}
// "${NAME}", "${NAME[@]}", "${NAME[1]}", "${NAME:-x}", "${NAME-x}", "${NAME:=x}", "${NAME:+x}", "${NAME:?x}".
ShellExpansion::Words ShellExpansion::braced(const std::string& whole) {
  const std::string inside = whole.substr(2, whole.size() - 3);
  std::size_t end = 0;
  while (end < inside.size() && name_char(inside[end])) ++end;
  const std::string name = inside.substr(0, end);
  std::string rest = inside.substr(end);
  if (rest.starts_with("[@]") || rest.starts_with("[*]")) rest.erase(0, 3);
  const bool positional = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  const bool known = positional ? value_of(name, "$")[0] != "$" : run_.variables.contains(name);
  if (rest.empty()) return value_of(name, whole);
  if (known && rest.front() == '[' && rest.find(']') == rest.size() - 1) {
    const Words& all = run_.variables.at(name);
    const auto at = arithmetic(numbers_in(rest.substr(1, rest.size() - 2)));
    const std::int64_t place = at.value_or(0) + (at.value_or(0) < 0 ? std::ssize(all) : 0);
    if (!at) return {whole};
    return {place >= 0 && place < std::ssize(all) ? all[static_cast<std::size_t>(place)] : ""};
  }
  const bool colon = rest[0] == ':';
  if (colon) rest.erase(0, 1);
  const Words value = known ? value_of(name, whole) : Words{};
  const bool there = known && !(colon && value.size() == 1 && (value[0].empty() || left_to_the_shell(value[0])));
  const auto other = [&] {
    if (++depth_ > kDeepest) return void(--depth_), Words{};
    Words words;
    const bool splits = std::exchange(splits_, false);
    expand(rest.substr(1), words);
    splits_ = splits;
    --depth_;
    return words;
  };
  if (rest.starts_with('-') || rest.starts_with('=')) {
    const Words words = there ? value : other();
    if (rest.starts_with('=') && !there && !dry) assign(name, words);
    return words;
  }
  if (rest.starts_with('+')) return there ? other() : Words{};
  if (rest.starts_with('?')) return there ? value : Words{"$" + name};
  return {whole};  // patterns and substrings
}
// Names inside of $(( )) replaced by their numbers.
std::string ShellExpansion::numbers_in(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '$') {
      const Words words = variable(text, i);
      out += words.empty() ? "0" : words[0];
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_') {
      std::size_t end = i;
      while (end < text.size() && name_char(text[end])) ++end;
      const Words words = value_of(text.substr(i, end - i), "$");
      out += words.empty() ? "0" : words[0];
      i = end;
    } else {
      out += text[i++];
    }
  }
  return out;
}

// "$(cat <<END … END)" is the document; the output of other commands is unknown.
ShellExpansion::Words ShellExpansion::substituted(const std::string& whole) {
  if (depth_ >= kDeepest || whole.size() < 4) return {whole};
  const std::vector<ShellToken> tokens = shell_tokens(whole.substr(2, whole.size() - 3));
  const ShellToken* body = nullptr;
  Words words;
  for (const ShellToken& token : tokens) {
    if (token.kind == ShellToken::Kind::kDocument) body = &token;
    if (token.kind == ShellToken::Kind::kWord) words.push_back(token.text);
  }
  if (body == nullptr || words != Words{"cat"}) return {whole};
  ++depth_;
  std::string text = body->elements.empty() ? document(body->text) : body->text;
  --depth_;
  while (text.ends_with('\n')) text.pop_back();
  return {text};
}

std::string ShellExpansion::document(const std::string& body) {
  std::string text;
  for (std::size_t i = 0; i < body.size();) {
    if (body[i] == '\\' && i + 1 < body.size() &&
        std::string_view("$`\\\n").find(body[i + 1]) != std::string_view::npos) {
      if (body[i + 1] != '\n') text += body[i + 1];
      i += 2;
    } else if (body[i] == '$') {
      const Words values = variable(body, i);
      for (std::size_t v = 0; v < values.size(); ++v) text += (v > 0 ? " " : "") + values[v];
    } else {
      text += body[i++];
    }
  }
  return text;
}

void ShellExpansion::assign(const std::string& name, Words words) {
  if (!run_.variables.contains(name) || std::ranges::find(run_.order, name) == run_.order.end())
    run_.order.push_back(name);
  run_.variables[name] = std::move(words);
}

}  // namespace weft::training
