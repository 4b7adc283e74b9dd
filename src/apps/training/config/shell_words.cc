#include "apps/training/config/shell_words.h"

#include <cctype>
#include <cstdint>

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

  // Past a quoted or bracketed part that starts here; keeps it as it is written.
  void part(std::string& out) {
    const char c = peek();
    const auto take = [&] {
      if (peek() == '\n') ++line_;
      out += text_[at_++];
    };
    if (c == '\\') {
      take();
      if (at_ < text_.size()) take();
    } else if (c == '\'') {
      take();
      while (at_ < text_.size() && peek() != '\'') take();
      if (at_ < text_.size()) take();
    } else if (c == '"' || c == '`') {
      take();
      while (at_ < text_.size() && peek() != c)
        if (c == '"' && peek() == '\'')
          take();  // "Let's start": no quote there
        else
          part(out);
      if (at_ < text_.size()) take();
    } else if (c == '$' && (peek(1) == '(' || peek(1) == '{')) {
      const char open = peek(1), close = open == '(' ? ')' : '}';
      take();
      take();
      for (int depth = 1; at_ < text_.size() && depth > 0;) {
        if (peek() == open) ++depth;
        if (peek() == close) --depth;
        if (depth > 0 && (peek() == '\'' || peek() == '"' || peek() == '\\'))
          part(out);
        else
          take();
      }
    } else {
      take();
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
    if (at_ < text_.size()) ++at_;
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
};

}  // namespace

std::vector<ShellToken> shell_tokens(std::string_view text) { return Lexer(text).tokens(); }

}  // namespace weft::training
