#include "apps/training/config/shell.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <utility>

#include "apps/training/config/shell_arithmetic.h"
#include "apps/training/config/shell_words.h"

namespace weft::training {
namespace {

using Kind = ShellToken::Kind;
enum class Truth : std::uint8_t { kNo, kYes, kUnknown };

constexpr int kDeepest = 64;                 // of functions, substitutions and sourced files
constexpr std::size_t kMostWords = 1 << 16;  // of one expansion, and commands of one script

bool name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(std::string_view word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::ranges::all_of(word, name_char);
}
bool unknown(std::string_view value) {
  return value.find('$') != std::string_view::npos || value.find('`') != std::string_view::npos;
}

class Interpreter {
 public:
  Interpreter(ShellRun& run, const std::function<std::optional<std::string>(const std::string&)>& source)
      : run_(run), source_(source) {}

  void script(std::string_view text) {
    if (++depth_ > kDeepest) return void(--depth_);
    const std::vector<ShellToken> own = shell_tokens(text);
    const std::vector<ShellToken>* const outer_tokens = tokens_;
    const std::size_t outer_at = at_;
    tokens_ = &own;
    at_ = 0;
    while (token().kind != Kind::kEnd) {
      list({});
      if (token().kind != Kind::kEnd) ++at_;  // a word that closes nothing
    }
    tokens_ = outer_tokens;
    at_ = outer_at;
    --depth_;
  }

 private:
  using Words = std::vector<std::string>;

  const ShellToken& token() const { return (*tokens_)[at_]; }
  bool is_operator(std::string_view op) const { return token().kind == Kind::kOperator && token().text == op; }
  bool is_word(std::string_view word) const { return token().kind == Kind::kWord && token().text == word; }
  bool ends(const std::set<std::string_view>& stops) const {
    return token().kind == Kind::kEnd || (token().kind == Kind::kWord && stops.contains(token().text)) ||
           (token().kind == Kind::kOperator && stops.contains(token().text));
  }

  // Commands up to one of `stops`, which is left. The truth of the last.
  Truth list(const std::set<std::string_view>& stops) {
    if (++depth_ > kDeepest) {
      --depth_;
      at_ = tokens_->size() - 1;
      return Truth::kUnknown;
    }
    static const std::set<std::string_view> kClosing = {"then", "do",   "done", "fi", "else",
                                                        "elif", "esac", "}",    ")",  ";;"};
    Truth last = Truth::kYes;
    while (!ends(stops) && !ends(kClosing)) {
      if (is_operator("\n") || is_operator(";") || is_operator("&")) {
        ++at_;
        continue;
      }
      last = chain();
    }
    --depth_;
    return last;
  }

  // Commands joined by && and ||.
  Truth chain() {
    Truth last = piped();
    while (is_operator("&&") || is_operator("||")) {
      const bool both = is_operator("&&");
      ++at_;
      while (is_operator("\n")) ++at_;
      const bool skipped = last == (both ? Truth::kNo : Truth::kYes);
      const bool outer = dry_;
      dry_ = dry_ || skipped || (last == Truth::kUnknown && !both);
      const Truth right = piped();
      dry_ = outer;
      if (!skipped) last = last == Truth::kUnknown ? Truth::kUnknown : right;
    }
    return last;
  }
  Truth piped() {
    Truth last = command();
    while (is_operator("|")) {
      ++at_;
      while (is_operator("\n")) ++at_;
      last = command();
    }
    return last;
  }

  Truth command() {
    const std::size_t before = at_;
    Truth truth = Truth::kUnknown;
    if (is_word("if"))
      truth = conditional();
    else if (is_word("for") || is_word("while") || is_word("until"))
      truth = loop();
    else if (is_word("case"))
      truth = choice();
    else if (is_word("{"))
      truth = group("}");
    else if (is_operator("("))
      truth = group(")");
    else if (is_word("!")) {
      ++at_;
      const Truth inner = command();
      truth = inner == Truth::kUnknown ? inner : inner == Truth::kYes ? Truth::kNo : Truth::kYes;
    } else if (is_word("function") || defines_function()) {
      define();
      return Truth::kYes;
    } else
      truth = simple();
    if (at_ == before) ++at_;  // whatever it is, it is not read twice
    return truth;
  }

  Truth group(std::string_view close) {
    ++at_;
    const Truth truth = list({close});
    if (is_word(close) || is_operator(close)) ++at_;
    return truth;
  }

  // Runs a branch, or only passes it.
  void branch(bool taken, const std::set<std::string_view>& stops) {
    const bool outer = dry_;
    dry_ = dry_ || !taken;
    list(stops);
    dry_ = outer;
  }

  Truth conditional() {
    bool done = false;
    const int line = token().line;
    while (is_word("if") || is_word("elif")) {
      ++at_;
      const bool outer = dry_;
      dry_ = dry_ || done;
      const Truth truth = list({"then"});
      dry_ = outer;
      if (is_word("then")) ++at_;
      if (truth == Truth::kUnknown && !done && !dry_)
        run_.notes.push_back(
            fmt::format("line {}: a condition that only the running script knows is taken as false", line));
      branch(!done && truth == Truth::kYes, {"elif", "else", "fi"});
      done = done || truth == Truth::kYes;
    }
    if (is_word("else")) {
      ++at_;
      branch(!done, {"fi"});
    }
    if (is_word("fi")) ++at_;
    return Truth::kYes;
  }

  // The body once: of `for`, with the first word.
  Truth loop() {
    const bool for_loop = is_word("for");
    ++at_;
    if (for_loop && token().kind == Kind::kWord && is_name(token().text)) {
      const std::string name = token().text;
      ++at_;
      if (is_word("in")) {
        ++at_;
        Words words;
        for (; token().kind == Kind::kWord && !is_word("do"); ++at_) expand(token().text, words);
        if (!words.empty() && !dry_) assign(name, {words[0]});
      }
    }
    if (!for_loop) list({"do"});
    while (token().kind != Kind::kEnd && !is_word("do")) ++at_;
    if (is_word("do")) ++at_;
    list({"done"});
    if (is_word("done")) ++at_;
    return Truth::kYes;
  }

  Truth choice() {
    ++at_;
    const std::string value = token().kind == Kind::kWord ? text_of(token().text) : "";
    while (token().kind != Kind::kEnd && !is_word("in")) ++at_;
    if (is_word("in")) ++at_;
    bool done = false;
    while (token().kind != Kind::kEnd && !is_word("esac")) {
      bool hit = false;
      for (; token().kind != Kind::kEnd && !is_operator(")") && !is_word("esac"); ++at_)
        if (token().kind == Kind::kWord) hit = hit || fnmatch(text_of(token().text).c_str(), value.c_str(), 0) == 0;
      if (is_operator(")")) ++at_;
      branch(hit && !done, {";;", "esac"});
      done = done || hit;
      if (is_operator(";;"))
        ++at_;
      else if (!is_word("esac") && token().kind != Kind::kEnd)
        ++at_;
    }
    if (is_word("esac")) ++at_;
    return Truth::kYes;
  }

  bool defines_function() const {
    return token().kind == Kind::kWord && at_ + 2 < tokens_->size() && (*tokens_)[at_ + 1].kind == Kind::kOperator &&
           (*tokens_)[at_ + 1].text == "(" && (*tokens_)[at_ + 2].kind == Kind::kOperator &&
           (*tokens_)[at_ + 2].text == ")";
  }
  void define() {
    if (is_word("function")) ++at_;
    const std::string name = token().text;
    ++at_;
    while (is_operator("(") || is_operator(")") || is_operator("\n")) ++at_;
    const std::size_t body = at_;
    const bool outer = dry_;
    dry_ = true;
    command();
    dry_ = outer;
    functions_[name] =
        std::vector<ShellToken>(tokens_->begin() + static_cast<std::ptrdiff_t>(body),
                                tokens_->begin() + static_cast<std::ptrdiff_t>(std::min(at_, tokens_->size())));
    functions_[name].push_back({Kind::kEnd, "", {}, 0});
  }
  void call(const std::string& name, const Words& words) {
    if (++depth_ > kDeepest) return void(--depth_);
    const std::vector<ShellToken> body = functions_[name];
    const auto* const tokens = tokens_;
    const std::size_t at = at_;
    const Words arguments = std::exchange(arguments_, Words(words.begin() + 1, words.end()));
    tokens_ = &body;
    at_ = 0;
    command();
    arguments_ = arguments;
    tokens_ = tokens;
    at_ = at;
    --depth_;
  }

  Truth simple() {
    Words words;
    bool assignments = true;
    while (true) {
      const ShellToken& t = token();
      if (t.kind == Kind::kArray) {
        Words elements;
        for (const std::string& e : t.elements) expand(e, elements);
        set(t.text.substr(0, t.text.find_first_of("+=")), elements, t.text.find('+') != std::string::npos);
        ++at_;
      } else if (t.kind == Kind::kWord) {
        if (assignments && assigned(t.text)) {
          ++at_;
          continue;
        }
        assignments = declares(words, t.text);
        expand(t.text, words);
        ++at_;
      } else if (is_operator(">") || is_operator(">>") || is_operator("<") || is_operator("&>") || is_operator("<<<")) {
        ++at_;  // with the file's name; "2>&1" has its & between
        if (is_operator("&")) ++at_;
        if (token().kind == Kind::kWord) ++at_;
      } else {
        break;
      }
    }
    return words.empty() ? Truth::kYes : execute(words);
  }
  // Words after which assignments may still come.
  static bool declares(const Words& words, const std::string& word) {
    for (const char* one : {"export", "local", "declare", "readonly", "typeset"})
      if ((words.empty() && word == one) || (!words.empty() && words[0] == one)) return true;
    return false;
  }
  // "NAME=value", "NAME+=value".
  bool assigned(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) return false;
    const bool append = word[equals - 1] == '+';
    const std::string name = word.substr(0, equals - (append ? 1 : 0));
    if (!is_name(name)) return false;
    const std::string value = text_of(word.substr(equals + 1));
    if (append && run_.variables.contains(name) && run_.variables[name].size() == 1)
      set(name, {run_.variables[name][0] + value}, false);
    else
      set(name, {value}, append);
    return true;
  }
  void set(const std::string& name, const Words& words, bool append) {
    if (dry_) return;
    if (!append) return assign(name, words);
    Words all = run_.variables[name];
    all.insert(all.end(), words.begin(), words.end());
    assign(name, all);
  }
  void assign(const std::string& name, Words words) {
    if (!run_.variables.contains(name) || std::ranges::find(run_.order, name) == run_.order.end())
      run_.order.push_back(name);
    run_.variables[name] = std::move(words);
  }

  Truth execute(Words words) {
    if (words[0] == "[" || words[0] == "[[" || words[0] == "test") return tested(std::move(words));
    if (words[0] == "true" || words[0] == ":") return Truth::kYes;
    if (words[0] == "false") return Truth::kNo;
    if (dry_) return Truth::kUnknown;
    if (declares({}, words[0]) || run_.commands.size() > kMostWords) return Truth::kYes;
    if (functions_.contains(words[0])) {
      call(words[0], words);
      return Truth::kUnknown;
    }
    if ((words[0] == "source" || words[0] == ".") && words.size() > 1) {
      if (const auto text = source_(words[1])) {
        script(*text);
      } else {
        run_.notes.push_back(fmt::format("{} is sourced and is not here", words[1]));
      }
      return Truth::kYes;
    }
    if (words[0] == "eval") {
      std::string all;
      for (std::size_t i = 1; i < words.size(); ++i) all += words[i] + ' ';
      script(all);
      return Truth::kUnknown;
    }
    for (std::size_t i = 1; i + 1 < words.size(); ++i)
      if ((words[i] == "-c" || words[i] == "-lc") && words[i - 1].ends_with("sh")) {
        script(words[i + 1]);
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        break;
      }
    run_.commands.push_back(std::move(words));
    return Truth::kUnknown;
  }

  Truth tested(Words words) {
    if (words[0] != "test") {
      if (words.back() == "]" || words.back() == "]]") words.pop_back();
    }
    words.erase(words.begin());
    std::size_t at = 0;
    const Truth truth = any_of_tests(words, at);
    return at == words.size() ? truth : Truth::kUnknown;
  }
  Truth any_of_tests(const Words& w, std::size_t& at) {
    Truth truth = all_of_tests(w, at);
    while (at < w.size() && (w[at] == "||" || w[at] == "-o")) {
      const Truth right = all_of_tests(w, ++at);
      truth = truth == Truth::kYes || right == Truth::kYes ? Truth::kYes : truth == Truth::kNo ? right : truth;
    }
    return truth;
  }
  Truth all_of_tests(const Words& w, std::size_t& at) {
    Truth truth = one_test(w, at);
    while (at < w.size() && (w[at] == "&&" || w[at] == "-a")) {
      const Truth right = one_test(w, ++at);
      truth = truth == Truth::kNo || right == Truth::kNo ? Truth::kNo : truth == Truth::kYes ? right : truth;
    }
    return truth;
  }
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
      if (op == "-n" || op == "-z") return truth((value.empty() || unknown(value)) == (op == "-z"));
      return Truth::kUnknown;
    }
    const std::string left = w[at++];
    if (at + 1 > w.size() || at == w.size() || w[at] == "&&" || w[at] == "||")
      return truth(!left.empty() && !unknown(left));
    const std::string op = w[at];
    if (at + 1 >= w.size()) return Truth::kUnknown;
    const std::string right = w[at + 1];
    at += 2;
    if (op == "==" || op == "=" || op == "!=") {
      const bool same = fnmatch(right.c_str(), left.c_str(), 0) == 0;
      if (!same && unknown(right)) return Truth::kUnknown;
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

  // One word as text: expanded, not split.
  std::string text_of(const std::string& word) {
    Words words;
    splits_ = false;
    expand(word, words);
    splits_ = true;
    std::string all;
    for (std::size_t i = 0; i < words.size(); ++i) all += (i > 0 ? " " : "") + words[i];
    return all;
  }

  // Appends the words that `word` expands to.
  void expand(const std::string& word, Words& out) {
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
        const Words values = variable(word, i);
        split(values, pieces);
      } else {
        pieces.back() += c;
        ++i;
      }
    }
    for (std::size_t p = 0; p < pieces.size(); ++p)
      if (!pieces[p].empty() || quoted_any || !splits_) out.push_back(pieces[p]);
  }
  std::size_t in_quotes(const std::string& word, std::size_t i, Words& pieces) {
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
  void split(const Words& values, Words& pieces) const {
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

  // What stands at word[i], a '$'; moves i past it.
  Words variable(const std::string& word, std::size_t& i) {
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
      return open == '(' ? Words{whole} : braced(whole);
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
  Words value_of(const std::string& name, const std::string& otherwise) {
    if (name == "@" || name == "*") return arguments_.empty() ? Words{} : arguments_;
    if (name.size() == 1 && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      const auto at = static_cast<std::size_t>(name[0] - '1');
      return at < arguments_.size() ? Words{arguments_[at]} : Words{otherwise};
    }
    const auto found = run_.variables.find(name);
    return found == run_.variables.end() ? Words{otherwise} : found->second;
  }
  // "${NAME}", "${NAME[@]}", "${NAME:-x}", "${NAME-x}", "${NAME:=x}", "${NAME:+x}", "${NAME:?x}".
  Words braced(const std::string& whole) {
    const std::string inside = whole.substr(2, whole.size() - 3);
    std::size_t end = 0;
    while (end < inside.size() && name_char(inside[end])) ++end;
    const std::string name = inside.substr(0, end);
    std::string rest = inside.substr(end);
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) rest.erase(0, 3);
    const bool positional = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    const bool known = positional ? value_of(name, "$")[0] != "$" : run_.variables.contains(name);
    if (rest.empty()) return value_of(name, whole);
    const bool colon = rest[0] == ':';
    if (colon) rest.erase(0, 1);
    const Words value = known ? value_of(name, whole) : Words{};
    const bool there = known && !(colon && value.size() == 1 && (value[0].empty() || unknown(value[0])));
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
      if (rest.starts_with('=') && !there && !dry_) assign(name, words);
      return words;
    }
    if (rest.starts_with('+')) return there ? other() : Words{};
    if (rest.starts_with('?')) return there ? value : Words{"$" + name};
    return {whole};  // patterns and substrings
  }
  // Names inside of $(( )) replaced by their numbers.
  std::string numbers_in(const std::string& text) {
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

  ShellRun& run_;
  const std::function<std::optional<std::string>(const std::string&)>& source_;
  const std::vector<ShellToken>* tokens_ = nullptr;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool dry_ = false;    // inside a branch that is not taken
  bool splits_ = true;  // expansions are split into words at blanks
  Words arguments_;     // of the function that runs
  std::map<std::string, std::vector<ShellToken>> functions_;
};

}  // namespace

ShellRun run_shell(std::string_view text, const std::function<std::optional<std::string>(const std::string&)>& source) {
  ShellRun run;
  Interpreter(run, source).script(text);
  return run;
}

}  // namespace weft::training
