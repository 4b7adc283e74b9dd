#include "apps/doctor/pattern.h"

#include <cctype>
#include <vector>

namespace weft::doctor {
namespace {

constexpr int kMostInstructions = 4000, kMostRepeats = 100, kDeepest = 50;

std::bitset<256> class_of(char name) {
  std::bitset<256> set;
  for (int c = 0; c < 256; ++c) {
    const bool digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    switch (name) {
      case 'd':
        set[c] = digit;
        break;
      case 'D':
        set[c] = !digit;
        break;
      case 'w':
        set[c] = digit || letter;
        break;
      case 'W':
        set[c] = !(digit || letter);
        break;
      case 's':
        set[c] = space;
        break;
      default:
        set[c] = !space;
        break;
    }
  }
  return set;
}

bool is_class(char c) { return std::string_view("dDwWsS").find(c) != std::string_view::npos; }
char escaped(char c) { return c == 't' ? '\t' : c == 'n' ? '\n' : c; }

}  // namespace

// Recursive descent; each function appends the instructions of what it has read.
class Pattern::Compiler {
 public:
  Compiler(Pattern& pattern, std::string_view text) : p_(pattern), text_(text) {}

  std::string run() {
    alternatives(0);
    if (problem_.empty() && at_ < text_.size()) problem_ = "a ) without (";
    emit({.op = Op::kMatch});
    if (problem_.empty() && p_.program_.size() > kMostInstructions) problem_ = "is too long";
    return problem_;
  }

 private:
  int size() const { return static_cast<int>(p_.program_.size()); }
  int emit(Instruction i) {
    p_.program_.push_back(i);
    return size() - 1;
  }
  bool fails() const { return !problem_.empty() || p_.program_.size() > kMostInstructions; }
  bool more() const { return at_ < text_.size(); }

  void alternatives(int depth) {
    if (depth > kDeepest) problem_ = "is too deep";
    if (fails()) return;
    std::vector<int> ends;
    for (;;) {
      const int split = emit({.op = Op::kSplit});
      sequence(depth);
      p_.program_[split].first = split + 1;
      if (!more() || text_[at_] != '|' || fails()) {
        p_.program_[split] = {.op = Op::kJump, .first = split + 1};
        break;
      }
      ++at_;
      ends.push_back(emit({.op = Op::kJump}));
      p_.program_[split].second = size();
    }
    for (const int end : ends) p_.program_[end].first = size();
  }

  void sequence(int depth) {
    while (more() && text_[at_] != '|' && text_[at_] != ')' && !fails()) {
      const int begin = size();
      const std::size_t from = at_;
      atom(depth);
      quantifier(begin, from, depth);
    }
  }

  void add_set(const std::bitset<256>& set) {
    p_.sets_.push_back(set);
    emit({.op = Op::kSet, .set = static_cast<int>(p_.sets_.size()) - 1});
  }

  void atom(int depth) {
    const char c = text_[at_++];
    if (c == '(') return group(depth);
    if (c == '[') return bracket();
    if (c == '.') return void(emit({.op = Op::kAny}));
    if (c == '^') return void(emit({.op = Op::kBegin}));
    if (c == '$') return void(emit({.op = Op::kEnd}));
    if (c == '*' || c == '+' || c == '?' || c == '{') return void(problem_ = "nothing is repeated");
    if (c != '\\') return void(emit({.op = Op::kChar, .byte = static_cast<unsigned char>(c)}));
    if (!more()) return void(problem_ = "ends with a backslash");
    const char e = text_[at_++];
    if (e == 'b') return void(emit({.op = Op::kBoundary}));
    if (e >= '1' && e <= '9') return void(problem_ = "has a back reference");
    if (is_class(e)) return add_set(class_of(e));
    emit({.op = Op::kChar, .byte = static_cast<unsigned char>(escaped(e))});
  }

  void group(int depth) {
    Op ahead = Op::kMatch;
    if (text_.substr(at_).starts_with("?:")) {
      at_ += 2;
    } else if (text_.substr(at_).starts_with("?=") || text_.substr(at_).starts_with("?!")) {
      ahead = text_[at_ + 1] == '=' ? Op::kAhead : Op::kNotAhead;
      at_ += 2;
    }
    const int begin = ahead != Op::kMatch ? emit({.op = ahead, .first = size() + 1}) : -1;
    alternatives(depth + 1);
    if (begin >= 0) {
      emit({.op = Op::kMatch});
      p_.program_[begin].second = size();
    }
    if (!more())
      problem_ = "a ( without )";
    else
      ++at_;
  }

  void bracket() {
    std::bitset<256> set;
    const bool negated = more() && text_[at_] == '^';
    at_ += negated ? 1 : 0;
    for (bool first = true; more() && (text_[at_] != ']' || first); first = false) {
      char c = text_[at_++];
      if (c == '\\' && more()) {
        c = text_[at_++];
        if (is_class(c)) {
          set |= class_of(c);
          continue;
        }
        c = escaped(c);
      }
      const auto low = static_cast<unsigned char>(c);
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        const auto high = static_cast<unsigned char>(text_[at_ + 1]);
        at_ += 2;
        for (int b = low; b <= high; ++b) set[b] = true;
      } else {
        set[low] = true;
      }
    }
    if (!more()) return void(problem_ = "a [ without ]");
    ++at_;
    add_set(negated ? ~set : set);
  }

  int number() {
    int value = 0;
    while (more() && text_[at_] >= '0' && text_[at_] <= '9' && value <= kMostRepeats)
      value = 10 * value + (text_[at_++] - '0');
    return value;
  }

  // What stands between begin and here, `from` in the text, is repeated.
  void quantifier(int begin, std::size_t from, int depth) {
    if (!more() || fails()) return;
    const char c = text_[at_];
    int least = 0, most = -1;  // -1: no bound
    if (c == '{') {
      ++at_;
      least = number();
      most = least;
      if (more() && text_[at_] == ',') {
        ++at_;
        most = more() && text_[at_] == '}' ? -1 : number();
      }
      if (!more() || text_[at_] != '}' || least > kMostRepeats || most > kMostRepeats)
        return void(problem_ = "a bad {m,n}");
    } else if (c == '*' || c == '+' || c == '?') {
      least = c == '+' ? 1 : 0;
      most = c == '?' ? 1 : -1;
    } else {
      return;
    }
    ++at_;
    if (more() && text_[at_] == '?') ++at_;  // a lazy one matches the same texts
    const std::size_t behind = at_;
    const auto again = [&] {  // the atom once more
      at_ = from;
      atom(depth);
      at_ = behind;
    };
    p_.program_.resize(static_cast<std::size_t>(begin));
    for (int i = 0; i < least && !fails(); ++i) again();
    if (most < 0) {
      const int split = emit({.op = Op::kSplit});
      again();
      emit({.op = Op::kJump, .first = split});
      p_.program_[split].first = split + 1, p_.program_[split].second = size();
    }
    std::vector<int> splits;
    for (int i = least; i < most && !fails(); ++i) {
      splits.push_back(emit({.op = Op::kSplit}));
      again();
    }
    for (const int split : splits) p_.program_[split].first = split + 1, p_.program_[split].second = size();
  }

  Pattern& p_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::string problem_;
};

Result<Pattern> Pattern::compile(std::string_view expression) {
  Pattern pattern;
  const std::string problem = Compiler(pattern, expression).run();
  if (!problem.empty()) return bad_input("'{}' {}", expression, problem);
  std::vector<bool> seen(pattern.program_.size());
  pattern.find_first_bytes(0, seen);
  pattern.anchored_ = expression.starts_with('^') && expression.find('|') == std::string_view::npos;
  return pattern;
}

void Pattern::find_first_bytes(int from, std::vector<bool>& seen) {
  if (seen[static_cast<std::size_t>(from)]) return;
  seen[static_cast<std::size_t>(from)] = true;
  const Instruction& i = program_[static_cast<std::size_t>(from)];
  switch (i.op) {
    case Op::kChar:
      first_[i.byte] = true;
      break;
    case Op::kSet:
      first_ |= sets_[static_cast<std::size_t>(i.set)];
      break;
    case Op::kAny:
    case Op::kEnd:
    case Op::kMatch:
      anywhere_ = true;
      break;
    case Op::kSplit:
      find_first_bytes(i.first, seen);
      find_first_bytes(i.second, seen);
      break;
    case Op::kJump:
      find_first_bytes(i.first, seen);
      break;
    case Op::kBegin:
    case Op::kBoundary:
      find_first_bytes(from + 1, seen);
      break;
    case Op::kAhead:
    case Op::kNotAhead:
      find_first_bytes(i.second, seen);
      break;
  }
}

bool Pattern::match(std::string_view text, std::size_t start, int from, int& steps) const {
  // Where to go on if this way fails: as many as steps, so bounded by them. Kept between calls, which are many; a look
  // ahead has its states above those of its caller.
  struct State {
    int pc;
    std::size_t at;
  };
  static thread_local std::vector<State> stack;
  struct Restored {
    std::size_t size = stack.size();
    ~Restored() { stack.resize(size); }
  } const base;
  stack.push_back({from, start});
  const auto word = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  while (stack.size() > base.size) {
    auto [pc, at] = stack.back();
    stack.pop_back();
    for (bool alive = true; alive;) {
      if (++steps > kMostSteps) return false;
      const Instruction& i = program_[static_cast<std::size_t>(pc)];
      switch (i.op) {
        case Op::kMatch:
          return true;
        case Op::kChar:
          alive = at < text.size() && static_cast<unsigned char>(text[at]) == i.byte;
          ++at, ++pc;
          break;
        case Op::kSet:
          alive = at < text.size() && sets_[static_cast<std::size_t>(i.set)][static_cast<unsigned char>(text[at])];
          ++at, ++pc;
          break;
        case Op::kAny:
          alive = at < text.size() && text[at] != '\n';
          ++at, ++pc;
          break;
        case Op::kSplit:
          stack.push_back({i.second, at});
          pc = i.first;
          break;
        case Op::kJump:
          pc = i.first;
          break;
        case Op::kBegin:
          alive = at == 0, ++pc;
          break;
        case Op::kEnd:
          alive = at == text.size(), ++pc;
          break;
        case Op::kBoundary:
          alive = (at > 0 && word(at - 1)) != word(at), ++pc;
          break;
        case Op::kAhead:
        case Op::kNotAhead: {
          const bool there = match(text, at, i.first, steps);
          alive = there == (i.op == Op::kAhead);
          pc = i.second;
          break;
        }
      }
    }
  }
  return false;
}

bool Pattern::search(std::string_view text) const {
  int steps = 0;
  if (anchored_) return match(text, 0, 0, steps);
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (!anywhere_ && (at == text.size() || !first_[static_cast<unsigned char>(text[at])])) continue;
    if (match(text, at, 0, steps)) return true;
    if (steps > kMostSteps) return false;
  }
  return false;
}

}  // namespace weft::doctor
