#include "apps/training/config/shell_tests.h"

#include <fnmatch.h>

#include "apps/training/config/shell_arithmetic.h"

namespace weft::training {
namespace {

using Words = std::vector<std::string>;

Truth one_test(const Words& w, std::size_t& at) {
  if (at >= w.size()) return Truth::kNo;
  if (w[at] == "!") {
    const Truth inner = one_test(w, ++at);
    return inner == Truth::kUnknown ? inner : inner == Truth::kYes ? Truth::kNo : Truth::kYes;
  }
  const auto truth = [](bool yes) { return yes ? Truth::kYes : Truth::kNo; };
  const bool operand_follows = at + 1 < w.size() && w[at + 1] != "&&" && w[at + 1] != "||";
  if (w[at].size() == 2 && w[at][0] == '-' && operand_follows) {
    const std::string op = w[at], value = w[at + 1];
    at += 2;
    // A variable that nobody has set is empty unless the environment sets it.
    if (op == "-n" || op == "-z") return truth((value.empty() || left_to_the_shell(value)) == (op == "-z"));
    return Truth::kUnknown;
  }
  const std::string left = w[at++];
  if (at + 1 > w.size() || at == w.size() || w[at] == "&&" || w[at] == "||")
    return truth(!left.empty() && !left_to_the_shell(left));
  const std::string op = w[at];
  if (at + 1 >= w.size()) return Truth::kUnknown;
  const std::string right = w[at + 1];
  at += 2;
  if (op == "==" || op == "=" || op == "!=") {
    if (right.empty()) return truth((left.empty() || left_to_the_shell(left)) == (op != "!="));
    const bool same = fnmatch(right.c_str(), left.c_str(), 0) == 0;
    if (!same && left_to_the_shell(right)) return Truth::kUnknown;
    return truth(same == (op != "!="));
  }
  const auto a = arithmetic(left), b = arithmetic(right);
  if (!a || !b) return Truth::kUnknown;
  if (op == "-eq") return truth(*a == *b);
  if (op == "-ne") return truth(*a != *b);
  if (op == "-gt") return truth(*a > *b);
  if (op == "-ge") return truth(*a >= *b);
  if (op == "-lt") return truth(*a < *b);
  if (op == "-le") return truth(*a <= *b);
  return Truth::kUnknown;
}
Truth all_of_tests(const Words& w, std::size_t& at) {
  Truth truth = one_test(w, at);
  while (at < w.size() && (w[at] == "&&" || w[at] == "-a")) {
    const Truth right = one_test(w, ++at);
    truth = truth == Truth::kNo || right == Truth::kNo ? Truth::kNo : truth == Truth::kYes ? right : truth;
  }
  return truth;
}
Truth any_of_tests(const Words& w, std::size_t& at) {
  Truth truth = all_of_tests(w, at);
  while (at < w.size() && (w[at] == "||" || w[at] == "-o")) {
    const Truth right = all_of_tests(w, ++at);
    truth = truth == Truth::kYes || right == Truth::kYes ? Truth::kYes : truth == Truth::kNo ? right : truth;
  }
  return truth;
}

}  // namespace

Truth shell_test(std::vector<std::string> words) {
  if (words[0] != "test") {
    if (words.back() == "]" || words.back() == "]]") words.pop_back();
  }
  words.erase(words.begin());
  std::size_t at = 0;
  const Truth truth = any_of_tests(words, at);
  return at == words.size() ? truth : Truth::kUnknown;
}

}  // namespace weft::training
