#include <cstdint>
#include <string>
#include <string_view>

#include "apps/training/config/shell_arithmetic.h"
#include "apps/training/config/shell_expansion.h"
#include "apps/training/config/shell_tests.h"
#include "apps/training/config/shell_words.h"

namespace weft::training {
namespace {

constexpr int kDeepest = 64;

}  // namespace

// "$(cat <<END … END)" is the document; of other commands the output of echo, expr and bc is known.
ShellExpansion::Words ShellExpansion::substituted(const std::string& whole) {
  if (depth_ >= kDeepest || whole.size() < 4) return left(whole);
  const std::vector<ShellToken> tokens = shell_tokens(whole.substr(2, whole.size() - 3));
  const ShellToken* body = nullptr;
  Words words;
  bool piped = false, others = false;
  for (const ShellToken& token : tokens) {
    if (token.kind == ShellToken::Kind::kDocument) body = &token;
    if (token.kind == ShellToken::Kind::kWord) words.push_back(token.text);
    if (token.kind == ShellToken::Kind::kOperator && token.text == "|")
      piped = true;
    else if (token.kind == ShellToken::Kind::kOperator && token.text != "\n")
      others = true;
  }
  if (body == nullptr && !others && !words.empty()) {
    const bool calculated = piped && words.size() > 2 && (words.back() == "bc" || words[words.size() - 2] == "bc");
    if (piped && !calculated) return left(whole);
    if (calculated) words.resize(words.size() - (words.back() == "bc" ? 1 : 2));
    ++depth_;
    const Words output = output_of(words, calculated);
    --depth_;
    return output.empty() ? left(whole) : output;
  }
  if (body == nullptr || words != Words{"cat"}) return left(whole);
  ++depth_;
  std::string text = body->elements.empty() ? document(body->text) : body->text;
  --depth_;
  while (text.ends_with('\n')) text.pop_back();
  return {text};
}

// What echo and expr print, or what bc makes of it; nothing: that is not known.
ShellExpansion::Words ShellExpansion::output_of(const Words& words, bool calculated) {
  if (words[0] != "echo" && words[0] != "expr") return {};
  Words all;
  for (std::size_t i = 1; i < words.size(); ++i) expand(words[i], all);
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : " ") + one;
  if (left_to_the_shell(text) || text.starts_with('-') || text.empty()) return {};
  if (words[0] == "echo" && !calculated) return {text};
  if (const std::size_t scale = text.find(';'); scale != std::string::npos && text.starts_with("scale"))
    text.erase(0, scale + 1);
  const auto value = arithmetic(text);
  return value ? Words{std::to_string(*value)} : Words{};
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

}  // namespace weft::training
