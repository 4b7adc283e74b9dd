#include "apps/training/config/shell_arithmetic.h"

#include <cctype>

namespace weft::training {
namespace {

constexpr int kDeepest = 64;  // of parentheses

class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}
  std::optional<std::int64_t> value() {
    const auto v = sum();
    skip();
    return at_ == text_.size() ? v : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  static std::optional<std::int64_t> apply(char op, std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    if (op == '+') return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    if (op == '-') return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    if (op == '*') return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
    return op == '/' ? a / b : a % b;
  }
  std::optional<std::int64_t> sum() {
    auto v = product();
    for (char op : {'+', '-'})
      if (v && take(op)) {
        const auto more = sum_of(op, *v);
        return more;
      }
    return v;
  }
  std::optional<std::int64_t> sum_of(char op, std::int64_t left) {
    while (true) {
      const auto right = product();
      if (!right) return std::nullopt;
      const auto v = apply(op, left, *right);
      if (!v) return std::nullopt;
      left = *v;
      if (take('+'))
        op = '+';
      else if (take('-'))
        op = '-';
      else
        return left;
    }
  }
  std::optional<std::int64_t> product() {
    auto v = number();
    while (v) {
      char op = 0;
      for (char one : {'*', '/', '%'})
        if (op == 0 && take(one)) op = one;
      if (op == 0) return v;
      const auto right = number();
      v = right ? apply(op, *v, *right) : std::nullopt;
    }
    return v;
  }
  std::optional<std::int64_t> number() {
    if (++depth_ > kDeepest) return std::nullopt;
    if (take('-')) {
      const auto v = number();
      return v ? apply('-', 0, *v) : std::nullopt;
    }
    if (take('(')) {
      const auto v = sum();
      --depth_;
      return v && take(')') ? v : std::nullopt;
    }
    --depth_;
    skip();
    std::int64_t v = 0;
    const std::size_t from = at_;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_)
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v)) return std::nullopt;
    return at_ == from ? std::nullopt : std::optional(v);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view text) { return Arithmetic(text).value(); }

}  // namespace weft::training
