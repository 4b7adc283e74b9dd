#include "apps/training/config/shell_words.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace weft::training {
namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<ShellToken> tokens() {
    while (at_ < text_.size()) next();
    push(ShellToken::Kind::kEnd, "");
    return std::move(tokens_);
  }
  const Unclosed& unclosed() const { return unclosed_; }
  std::size_t length_of_part(bool quoted) {
    std::string part_itself;
    part(part_itself, quoted);
    return at_;
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void push(ShellToken::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), {}, line_}); }

  void next() {
    const char c = peek();
    if (blank(c)) {
      ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\r' ? 3 : 2;
      ++line_;
    } else if (c == '\n') {
      push(ShellToken::Kind::kOperator, "\n");
      ++at_;
      ++line_;
      read_documents();
    } else if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (tested_ == 0 && operator_at(c)) {
      return;
    } else {
      word();
    }
  }

  bool operator_at(char c) {
    if (c == '<' && peek(1) == '<' && peek(2) != '<') return here_document();
    if (c == '(' && peek(1) == '(' && expression()) return true;
    for (const char* op : {"<<<", ";;", "&&", "||", ">>", "&>", "<(", ">("})
      if (text_.substr(at_).starts_with(op)) {
        push(ShellToken::Kind::kOperator, op);
        at_ += std::string_view(op).size();
        return true;
      }
    if (std::string_view(";&|()<>").find(c) == std::string_view::npos) return false;
    push(ShellToken::Kind::kOperator, std::string(1, c));
    ++at_;
    return true;
  }

  // "((…))" where a command may stand; false: it is a group in a group.
  bool expression() {
    std::size_t end = at_ + 2;
    for (int depth = 0; end < text_.size() && (depth > 0 || text_[end] != ')'); ++end) {
      if (text_[end] == '(') ++depth;
      if (text_[end] == ')') --depth;
    }
    if (!text_.substr(std::min(end, text_.size())).starts_with("))")) return false;
    push(ShellToken::Kind::kArithmetic, std::string(text_.substr(at_ + 2, end - at_ - 2)));
    line_ += static_cast<int>(std::ranges::count(text_.substr(at_, end - at_), '\n'));
    at_ = end + 2;
    return true;
  }

  bool here_document() {
    at_ += 2;
    if (peek() == '-') ++at_;
    while (blank(peek())) ++at_;
    std::string end;
    bool quoted = false;
    for (char c = peek();
         at_ < text_.size() && !blank(c) && std::string_view("\n;>|)&").find(c) == std::string_view::npos; c = peek()) {
      if (c == '\'' || c == '"' || c == '\\')
        quoted = true;
      else
        end += c;
      ++at_;
    }
    documents_.push_back({std::move(end), tokens_.size()});
    push(ShellToken::Kind::kDocument, "");
    if (quoted) tokens_.back().elements.push_back(documents_.back().end);
    return true;
  }
  // The bodies of the documents that the line before has named.
  void read_documents() {
    for (const Document& document : documents_) {
      std::string body;
      while (at_ < text_.size()) {
        const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
        std::string_view row = text_.substr(at_, stop - at_);
        at_ = std::min(stop + 1, text_.size());
        ++line_;
        if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
        const std::size_t first = std::min(row.find_first_not_of("\t "), row.size());
        if (row.substr(first) == document.end) break;
        body.append(row).push_back('\n');
      }
      tokens_[document.token].text = std::move(body);
    }
    documents_.clear();
  }

  struct Depth {
    explicit Depth(int& depth) : depth(depth) { ++depth; }
    ~Depth() { --depth; }
    int& depth;
  };
  static constexpr int kDeepest = 256;

  void take(std::string& out) {
    if (peek() == '\n') ++line_;
    out += text_[at_++];
  }
  // The end of what began at `line`, or that it has none.
  void close(std::string& out, int line, std::string_view what) {
    if (at_ < text_.size())
      take(out);
    else if (unclosed_.line == 0)
      unclosed_ = {line, std::string(what)};
  }

  // Past a quoted or bracketed part that starts here; keeps it as it is written. `quoted`: inside double quotes, where
  // an apostrophe is a letter.
  void part(std::string& out, bool quoted = false) {
    const char c = peek();
    const int line = line_;
    const Depth depth(depth_);
    if (depth_ > kDeepest) {
      take(out);
    } else if (c == '\\') {
      take(out);
      if (at_ < text_.size()) take(out);
    } else if (c == '\'' && !quoted) {
      const bool escapes = out.ends_with('$');  // $'…'
      take(out);
      while (at_ < text_.size() && peek() != '\'') {
        if (escapes && peek() == '\\') take(out);
        if (at_ < text_.size()) take(out);
      }
      close(out, line, "'");
    } else if (c == '"' || c == '`') {
      take(out);
      while (at_ < text_.size() && peek() != c) part(out, c == '"' || quoted);
      close(out, line, c == '"' ? "\"" : "`");
    } else if (c == '$' && peek(1) == '{') {
      take(out);
      take(out);
      while (at_ < text_.size() && peek() != '}') part(out, quoted);
      close(out, line, "${");
    } else if (c == '$' && peek(1) == '(') {
      take(out);
      substituted(out, line);
    } else {
      take(out);
    }
  }
  // "(…)" behind a '$': commands, whose comments and here-documents may have quotes and parentheses of their own.
  void substituted(std::string& out, int line) {
    const Depth depth(depth_);
    take(out);
    const bool computes = out.ends_with("((");  // 1<<2
    std::vector<std::string> ends;
    while (at_ < text_.size() && peek() != ')') {
      const char before = out.back();
      if (peek() == '(' && depth_ <= kDeepest) {
        substituted(out, line_);
      } else if (peek() == '#' && (before == ' ' || before == '\n' || before == '\t')) {
        while (at_ < text_.size() && peek() != '\n') take(out);
      } else if (peek() == '<' && peek(1) == '<' && peek(2) != '<' && before != '<' && !computes) {
        ends.push_back(end_of_document(out));
      } else if (peek() == '\n' && !ends.empty()) {
        take(out);
        for (const std::string& end : std::exchange(ends, {})) body_of_document(out, end);
      } else {
        part(out);
      }
    }
    close(out, line, "$(");
  }
  // Past "<<-'END'"; the word.
  std::string end_of_document(std::string& out) {
    take(out);
    take(out);
    if (peek() == '-') take(out);
    while (blank(peek())) take(out);
    std::string end;
    while (at_ < text_.size() && !blank(peek()) && std::string_view("\n;>|)&").find(peek()) == std::string_view::npos) {
      if (std::string_view("'\"\\").find(peek()) == std::string_view::npos) end += peek();
      take(out);
    }
    return end;
  }
  void body_of_document(std::string& out, const std::string& end) {
    while (at_ < text_.size()) {
      const std::string_view row = text_.substr(at_, std::min(text_.find('\n', at_), text_.size()) - at_);
      const std::size_t first = std::min(row.find_first_not_of("\t "), row.size());
      const std::size_t last = row.find_last_not_of("\r\t ");
      const bool over = row.substr(first, last == std::string_view::npos ? 0 : last + 1 - first) == end;
      for (std::size_t i = 0; i < row.size(); ++i) take(out);
      if (over) return;
      if (at_ < text_.size()) take(out);
    }
  }

  void word() {
    std::string out;
    const int line = line_;
    while (at_ < text_.size()) {
      const char c = peek();
      if (blank(c) || c == '\n') break;
      if (c == '\\' && peek(1) == '\n') break;
      if (c == '(' && !out.empty() && out.back() == '=' && name_before(out)) return array(out, line);
      if ((tested_ == 0 || out == "]]") && std::string_view(";&|()<>").find(c) != std::string_view::npos) break;
      part(out);
    }
    if (out == "[[") tested_ = 1;
    if (out == "]]") tested_ = 0;
    tokens_.push_back({ShellToken::Kind::kWord, std::move(out), {}, line});
  }
  static bool name_before(const std::string& out) {
    for (const char c : out.substr(0, out.size() - 1))
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '+') return false;
    return out.size() > 1;
  }
  void array(std::string name, int line) {
    ShellToken token{ShellToken::Kind::kArray, std::move(name), {}, line};
    ++at_;
    while (at_ < text_.size() && peek() != ')') {
      const char c = peek();
      if (blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == '(') {
        if (c == '\n') ++line_;
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && peek() != '\n') ++at_;
      } else if (c == '\\' && (peek(1) == '\n' || peek(1) == '\r')) {
        ++at_;
      } else {
        std::string element;
        while (at_ < text_.size() && !blank(peek()) && peek() != '\n' && peek() != ')' &&
               !(peek() == '\\' && (peek(1) == '\n' || peek(1) == '\r')))
          part(element);
        token.elements.push_back(std::move(element));
      }
    }
    if (at_ < text_.size())
      ++at_;
    else if (unclosed_.line == 0)
      unclosed_ = {line, "("};
    tokens_.push_back(std::move(token));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int tested_ = 0;  // inside [[ … ]], where && and < are words
  struct Document {
    std::string end;
    std::size_t token;
  };
  std::vector<Document> documents_;
  std::vector<ShellToken> tokens_;
  Unclosed unclosed_;
  int depth_ = 0;  // of quotes and brackets
};

}  // namespace

std::vector<ShellToken> shell_tokens(std::string_view text, Unclosed* unclosed) {
  Lexer lexer(text);
  std::vector<ShellToken> tokens = lexer.tokens();
  if (unclosed != nullptr) *unclosed = lexer.unclosed();
  return tokens;
}

std::size_t end_of_part(std::string_view text, std::size_t at, bool quoted) {
  return at + Lexer(text.substr(at)).length_of_part(quoted);
}

}  // namespace weft::training
