#pragma once

#include <string_view>

namespace weft::ptx {

// Words and signs of a text of PTX, without comments and the lines for debuggers.
class Lexer {
 public:
  explicit Lexer(std::string_view text, std::size_t at = 0) : text_(text), at_(at) { read(); }

  std::string_view peek() const { return token_; }
  std::string_view text() const { return text_; }
  bool at_end() const { return token_.empty(); }
  std::size_t place() const { return begin_; }  // of the token that peek shows
  std::string_view next() {
    const std::string_view token = token_;
    read();
    return token;
  }
  bool take(std::string_view token) {
    if (token_ != token) return false;
    read();
    return true;
  }
  // Past the end of a statement, or of a body in braces that begins here.
  void skip_statement() {
    int depth = 0;
    for (; !at_end(); read()) {
      if (token_ == "{") ++depth;
      if (token_ == "}" && --depth == 0) break;
      if (token_ == ";" && depth == 0) break;
    }
    read();
  }

 private:
  static bool is_debug(std::string_view rest) {
    for (const std::string_view word : {".loc", ".file"})
      if (rest.starts_with(word) && rest.size() > word.size() && !is_word(rest[word.size()])) return true;
    return false;
  }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%' || c == '.';
  }
  void skip_to(std::string_view end) {
    const auto found = text_.find(end, at_);
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }
  void read() {
    for (;;) {
      while (at_ < text_.size() && static_cast<unsigned char>(text_[at_]) <= ' ') ++at_;
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("//") || is_debug(rest))
        skip_to("\n");
      else if (rest.starts_with("/*"))
        skip_to("*/");
      else
        break;
    }
    begin_ = at_;
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      skip_to("\"");
    } else if (at_ < text_.size() && is_word(text_[at_])) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    } else if (at_ < text_.size()) {
      ++at_;
    }
    token_ = text_.substr(begin_, at_ - begin_);
  }

  std::string_view text_, token_;
  std::size_t at_, begin_ = 0;
};

}  // namespace weft::ptx
