#include "apps/training/config/shell_arithmetic.h"

#include <array>
#include <cctype>
#include <utility>

namespace weft::training {
namespace {

using Value = std::optional<std::int64_t>;

constexpr int kDeepest = 64;  // of parentheses, and of variables whose values are expressions

bool name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  std::int64_t out = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(out, base, &out) || exponent > 128) return std::nullopt;
  }
  return out;
}

Value apply(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &out) ? std::nullopt : Value(out);
  if (op == "-") return __builtin_sub_overflow(a, b, &out) ? std::nullopt : Value(out);
  if (op == "*") return __builtin_mul_overflow(a, b, &out) ? std::nullopt : Value(out);
  if (op == "**") return power(a, b);
  if (op == "/" || op == "%") {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
    return op == "/" ? a / b : a % b;
  }
  if (op == "<<" || op == ">>") {
    if (b < 0 || b > 62 || a < 0) return std::nullopt;
    if (op == ">>") return a >> b;
    return a > (INT64_MAX >> b) ? std::nullopt : Value(a << b);
  }
  if (op == "&") return a & b;
  if (op == "^") return a ^ b;
  if (op == "|") return a | b;
  if (op == "==") return a == b ? 1 : 0;
  if (op == "!=") return a != b ? 1 : 0;
  if (op == "<=") return a <= b ? 1 : 0;
  if (op == ">=") return a >= b ? 1 : 0;
  if (op == "<") return a < b ? 1 : 0;
  if (op == ">") return a > b ? 1 : 0;
  return std::nullopt;
}

// Binary operators, the loosest first; && and || stand apart, as they may leave their right side alone.
constexpr std::array<std::array<std::string_view, 4>, 8> kLevels = {
    {{"|"}, {"^"}, {"&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}}};
// All operators, the longest first: one is read where it is whole.
constexpr std::string_view kOperators[] = {"<<=", ">>=", "**", "<<", ">>", "<=", ">=", "==", "!=", "&&",
                                           "||",  "+=",  "-=", "*=", "/=", "%=", "&=", "^=", "|=", "++",
                                           "--",  "+",   "-",  "*",  "/",  "%",  "<",  ">",  "&",  "^",
                                           "|",   "=",   "?",  ":",  ",",  "(",  ")",  "!",  "~"};

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const ShellNumbers& numbers, int depth)
      : text_(text), numbers_(numbers), depth_(depth) {}

  Value value() {
    if (next().empty() && at_ == text_.size()) return 0;  // $(( )) is 0
    const Value v = comma();
    return !wrong_ && next().empty() && at_ == text_.size() ? v : std::nullopt;
  }

 private:
  // The operator that stands here; empty: none.
  std::string_view next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    for (const std::string_view op : kOperators)
      if (text_.substr(at_).starts_with(op)) return op;
    return {};
  }
  bool take(std::string_view op) {
    if (next() != op) return false;
    at_ += op.size();
    return true;
  }
  Value wrong() {
    wrong_ = true;
    at_ = text_.size();
    return std::nullopt;
  }

  Value comma() {
    Value v = choice();
    while (take(",")) v = choice();
    return v;
  }
  Value choice() {
    if (++depth_ > kDeepest) return wrong();
    const Value condition = either();
    if (!take("?")) return --depth_, condition;
    const Value yes = aside(!condition || *condition != 0, &Arithmetic::choice);
    if (!take(":")) return wrong();
    const Value no = aside(!condition || *condition == 0, &Arithmetic::choice);
    --depth_;
    return !condition ? std::nullopt : *condition != 0 ? yes : no;
  }
  // A part whose assignments count only where it is taken.
  Value aside(bool taken, Value (Arithmetic::*part)()) {
    const bool outer = std::exchange(mute_, mute_ || !taken);
    const Value v = (this->*part)();
    mute_ = outer;
    return v;
  }
  Value either() {
    Value v = both();
    while (take("||")) {
      const Value right = aside(!v || *v == 0, &Arithmetic::both);
      if (v && *v != 0)
        v = 1;
      else
        v = !v || !right ? std::nullopt : Value(*right != 0 ? 1 : 0);
    }
    return v;
  }
  Value both() {
    Value v = all_bits();
    while (take("&&")) {
      const Value right = aside(!v || *v != 0, &Arithmetic::all_bits);
      if (v && *v == 0)
        v = 0;
      else
        v = !v || !right ? std::nullopt : Value(*right != 0 ? 1 : 0);
    }
    return v;
  }
  Value all_bits() { return binary(0); }
  Value binary(std::size_t level) {
    if (level == kLevels.size()) return raised();
    Value v = binary(level + 1);
    while (true) {
      const std::string_view op = next();
      bool mine = false;
      for (const std::string_view own : kLevels[level]) mine = mine || (!own.empty() && own == op);
      if (!mine) return v;
      at_ += op.size();
      const Value right = binary(level + 1);
      v = v && right ? apply(op, *v, *right) : std::nullopt;
    }
  }
  // 2**3**2 is 2**9.
  Value raised() {
    const Value v = unary();
    if (!take("**")) return v;
    if (++depth_ > kDeepest) return wrong();
    const Value right = raised();
    --depth_;
    return v && right ? apply("**", *v, *right) : std::nullopt;
  }
  Value unary() {
    if (++depth_ > kDeepest) return wrong();
    Value v;
    if (take("++"))
      v = changed(1, false);
    else if (take("--"))
      v = changed(-1, false);
    else if (take("-"))
      v = with(unary(), [](std::int64_t x) { return apply("-", 0, x); });
    else if (take("+"))
      v = unary();
    else if (take("!"))
      v = with(unary(), [](std::int64_t x) { return Value(x == 0 ? 1 : 0); });
    else if (take("~"))
      v = with(unary(), [](std::int64_t x) { return Value(~x); });
    else
      v = operand();
    --depth_;
    return v;
  }
  template <class F>
  static Value with(Value v, const F& change) {
    return v ? change(*v) : std::nullopt;
  }
  Value operand() {
    if (take("(")) {
      const Value v = comma();
      return take(")") ? v : wrong();
    }
    next();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return number();
    const std::string name = read_name();
    if (name.empty()) return wrong();
    return named(name);
  }
  Value number() {
    const std::size_t from = at_;
    while (at_ < text_.size() && (name_char(text_[at_]) || text_[at_] == '#')) ++at_;
    std::string_view digits = text_.substr(from, at_ - from);
    std::int64_t base = 10;
    if (const std::size_t sign = digits.find('#'); sign != std::string_view::npos) {
      base = 0;
      for (const char c : digits.substr(0, sign))
        base = c >= '0' && c <= '9' && base < 100 ? base * 10 + (c - '0') : 100;
      if (base < 2 || base > 36) return wrong();
      digits.remove_prefix(sign + 1);
    } else if (digits.starts_with("0x") || digits.starts_with("0X")) {
      base = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0') {
      base = 8;
    }
    std::int64_t v = 0;
    for (const char c : digits) {
      const std::int64_t digit = std::isdigit(static_cast<unsigned char>(c)) != 0   ? c - '0'
                                 : std::isalpha(static_cast<unsigned char>(c)) != 0 ? (c | 0x20) - 'a' + 10
                                                                                    : 99;
      if (digit >= base) return wrong();
      if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v)) return std::nullopt;
    }
    return digits.empty() ? wrong() : Value(v);
  }
  // "N", "N[i + 1]"; empty: no name stands here.
  std::string read_name() {
    const std::size_t from = at_;
    while (at_ < text_.size() && name_char(text_[at_])) ++at_;
    if (at_ > from && at_ < text_.size() && text_[at_] == '[') {
      int depth = 0;
      do {
        if (text_[at_] == '[') ++depth;
        if (text_[at_] == ']') --depth;
        ++at_;
      } while (at_ < text_.size() && depth > 0);
    }
    return std::string(text_.substr(from, at_ - from));
  }
  Value of(const std::string& name) {
    const auto text = numbers_.text ? numbers_.text(name) : std::nullopt;
    if (!text || depth_ >= kDeepest) return std::nullopt;
    return Arithmetic(*text, numbers_, depth_ + 1).value();
  }
  Value set(const std::string& name, Value v) {
    if (v && !mute_ && numbers_.assign) numbers_.assign(name, *v);
    return v;
  }
  // ++N, N++ and their like.
  Value changed(std::int64_t by, bool behind, std::string name = "") {
    if (name.empty()) {
      next();
      name = read_name();
    }
    if (name.empty()) return wrong();
    const Value before = of(name);
    const Value after = set(name, before ? apply("+", *before, by) : std::nullopt);
    return behind ? before : after;
  }
  Value named(const std::string& name) {
    const std::string_view op = next();
    if (op == "++" || op == "--") {
      at_ += 2;
      return changed(op == "++" ? 1 : -1, true, name);
    }
    if (op == "=") {
      take("=");
      return set(name, choice());
    }
    constexpr std::string_view kChanging[] = {"+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "<<=", ">>="};
    for (const std::string_view changing : kChanging)
      if (op == changing) {
        at_ += op.size();
        const Value right = choice(), left = of(name);
        return set(name, left && right ? apply(op.substr(0, op.size() - 1), *left, *right) : std::nullopt);
      }
    return of(name);
  }

  std::string_view text_;
  const ShellNumbers& numbers_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool mute_ = false;   // in a part that is not taken
  bool wrong_ = false;  // no expression
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view text, const ShellNumbers& numbers) {
  return Arithmetic(text, numbers, 0).value();
}

}  // namespace weft::training
