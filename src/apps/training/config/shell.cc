#include "apps/training/config/shell.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "apps/training/config/shell_builtins.h"
#include "apps/training/config/shell_expansion.h"
#include "apps/training/config/shell_tests.h"
#include "apps/training/config/shell_words.h"

namespace weft::training {
namespace {

using Kind = ShellToken::Kind;

constexpr int kDeepest = 64;                    // of functions, substitutions and sourced files
constexpr std::size_t kMostCommands = 1 << 16;  // of one script
constexpr int kMostTurns = 256;                 // of a loop over a script's arguments

class Interpreter {
 public:
  Interpreter(ShellRun& run, const std::function<std::optional<std::string>(const std::string&)>& source,
              const std::vector<std::string>& arguments)
      : run_(run), source_(source), words_(run), builtins_(run, words_) {
    words_.arguments = arguments;
  }

  void script(std::string_view text) {
    if (++depth_ > kDeepest) return void(--depth_);
    Unclosed unclosed;
    const std::vector<ShellToken> own = shell_tokens(text, &unclosed);
    if (depth_ == 1) run_.unclosed_line = unclosed.line, run_.unclosed = unclosed.what;
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
  using Words = ShellExpansion::Words;

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
      const bool outer = words_.dry;
      words_.dry = words_.dry || skipped || (last == Truth::kUnknown && !both);
      const Truth right = piped();
      words_.dry = outer;
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
    words_.line = token().line;
    if (token().kind == Kind::kArithmetic)
      truth = computed();
    else if (is_word("if"))
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
    const bool outer = words_.dry;
    words_.dry = words_.dry || !taken;
    list(stops);
    words_.dry = outer;
  }

  // Whether the script ends where the condition before this "then" branch is false: its else has "exit".
  bool gives_up_otherwise() const {
    int depth = 0;
    bool otherwise = false;
    for (std::size_t i = at_; i < tokens_->size() && depth >= 0; ++i) {
      const ShellToken& t = (*tokens_)[i];
      if (t.kind != Kind::kWord) continue;
      if (t.text == "if") ++depth;
      if (t.text == "fi") --depth;
      if (t.text == "elif" && depth == 0) return false;
      if (t.text == "else" && depth == 0) otherwise = true;
      if (t.text == "exit" && depth == 0 && otherwise) return true;
    }
    return false;
  }

  Truth conditional() {
    bool done = false;
    const int line = token().line;
    while (is_word("if") || is_word("elif")) {
      ++at_;
      const bool outer = words_.dry;
      words_.dry = words_.dry || done;
      const Truth truth = list({"then"});
      words_.dry = outer;
      if (is_word("then")) ++at_;
      const bool needed = truth == Truth::kUnknown && !done && gives_up_otherwise();
      if (truth == Truth::kUnknown && !needed && !done && !words_.dry)
        run_.notes.push_back(
            fmt::format("line {}: a condition that only the running script knows is taken as false", line));
      branch(!done && (needed || truth == Truth::kYes), {"elif", "else", "fi"});
      done = done || needed || truth == Truth::kYes;
    }
    if (is_word("else")) {
      ++at_;
      branch(!done, {"fi"});
    }
    if (is_word("fi")) ++at_;
    return Truth::kYes;
  }

  // "((…))": true where it is not 0.
  Truth computed() {
    const auto value = words_.number(token().text);
    ++at_;
    return !value ? Truth::kUnknown : *value != 0 ? Truth::kYes : Truth::kNo;
  }

  // The body once: of `for`, with the first word. A loop over the script's own arguments runs for each of them.
  Truth loop() {
    const bool for_loop = is_word("for"), until = is_word("until");
    const int line = token().line;
    ++at_;
    if (for_loop) first_turn(line);
    const std::size_t condition = at_;
    for (int turn = 1;; ++turn) {
      at_ = condition;
      const Truth truth = for_loop ? Truth::kYes : list({"do"});
      const bool asks = of_arguments(condition);
      while (token().kind != Kind::kEnd && !is_word("do")) ++at_;
      if (is_word("do")) ++at_;
      const bool ended = truth == (until ? Truth::kYes : Truth::kNo) || (asks && truth == Truth::kUnknown);
      broken_ = false;
      branch(!ended, {"done"});
      if (is_word("done")) ++at_;
      if (ended || !asks || words_.dry || std::exchange(broken_, false) || turn == kMostTurns) return Truth::kYes;
    }
  }
  // "NAME in A B" or "((N = 0; …))" behind `for`.
  void first_turn(int line) {
    if (token().kind == Kind::kArithmetic) {
      words_.number(token().text.substr(0, token().text.find(';')));
      ++at_;
    } else if (token().kind == Kind::kWord && is_shell_name(token().text)) {
      const std::string name = token().text;
      ++at_;
      if (!is_word("in")) return;
      ++at_;
      Words words;
      for (; token().kind == Kind::kWord && !is_word("do"); ++at_) words_.expand(token().text, words);
      if (words.empty() || words_.dry) return;
      words_.assign(name, {words[0]});
      if (words.size() > 1)
        run_.notes.push_back(
            fmt::format("line {}: {}={}, the first of the loop's {}", line, name, words[0], words.size()));
    }
  }
  // True where a loop's condition, whose tokens begin at `from` and end here, asks for the script's arguments.
  bool of_arguments(std::size_t from) const {
    for (std::size_t i = from; i < at_; ++i) {
      const std::string& text = (*tokens_)[i].text;
      if (text == "getopts" || text.find("$#") != std::string::npos || text.find("$1") != std::string::npos ||
          text.find("${1") != std::string::npos)
        return true;
    }
    return false;
  }

  Truth choice() {
    ++at_;
    const std::string value = token().kind == Kind::kWord ? words_.text_of(token().text) : "";
    while (token().kind != Kind::kEnd && !is_word("in")) ++at_;
    if (is_word("in")) ++at_;
    bool done = false;
    while (token().kind != Kind::kEnd && !is_word("esac")) {
      bool hit = false;
      for (; token().kind != Kind::kEnd && !is_operator(")") && !is_word("esac"); ++at_)
        if (token().kind == Kind::kWord)
          hit = hit || fnmatch(words_.text_of(token().text).c_str(), value.c_str(), 0) == 0;
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
    const bool outer = words_.dry;
    words_.dry = true;
    command();
    words_.dry = outer;
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
    const Words arguments = std::exchange(words_.arguments, Words(words.begin() + 1, words.end()));
    tokens_ = &body;
    at_ = 0;
    command();
    words_.arguments = arguments;
    tokens_ = tokens;
    at_ = at;
    --depth_;
  }

  Truth simple() {
    Words words;
    std::optional<std::string> document;
    std::string target;  // of the output
    bool assignments = true;
    while (true) {
      const ShellToken& t = token();
      words_.line = t.line;
      if (t.kind == Kind::kArray) {
        builtins_.array(t, std::ranges::find(words, "-A") != words.end());
        ++at_;
      } else if (t.kind == Kind::kWord) {
        if (assignments && builtins_.assigned(t.text)) {
          ++at_;
          continue;
        }
        assignments = declares(words, t.text);
        words_.expand(t.text, words);
        ++at_;
      } else if (is_operator(">") || is_operator(">>") || is_operator("<") || is_operator("&>") || is_operator("<<<")) {
        const bool writes = is_operator(">") || is_operator(">>"), here = is_operator("<<<");
        ++at_;  // with the file's name; "2>&1" has its & between
        const bool copies = is_operator("&");
        if (copies) ++at_;
        if (token().kind == Kind::kWord) {
          if (writes && !copies) target = words_.text_of(token().text);
          if (here) document = words_.text_of(token().text) + '\n';
          ++at_;
        }
      } else if (t.kind == Kind::kDocument) {
        document = t.elements.empty() ? words_.document(t.text) : t.text;
        ++at_;
      } else {
        break;
      }
    }
    return words.empty() ? Truth::kYes : execute(words, document, target);
  }
  // Words after which assignments may still come.
  static bool declares(const Words& words, const std::string& word) {
    for (const char* one : {"export", "local", "declare", "readonly", "typeset"})
      if ((words.empty() && word == one) || (!words.empty() && words[0] == one)) return true;
    return false;
  }
  // `document`: the command's here-document; `target`: the file that its output goes to.
  Truth execute(Words words, const std::optional<std::string>& document, const std::string& target) {
    if (words[0] == "[" || words[0] == "[[" || words[0] == "test") return shell_test(std::move(words));
    if (words[0] == "true" || words[0] == ":") return Truth::kYes;
    if (words[0] == "false") return Truth::kNo;
    if (words[0] == "let") return builtins_.let(words);
    if (words_.dry) return Truth::kUnknown;
    if (words[0] == "getopts" && words.size() > 2) return builtins_.next_option(words[1], words[2]);
    if (words[0] == "shift") return builtins_.shift(words);
    if (words[0] == "break") return broken_ = true, Truth::kYes;
    if (words[0] == "set" && words.size() > 1 && words[1] == "--")
      return words_.arguments.assign(words.begin() + 2, words.end()), Truth::kYes;
    if (document && words[0] == "cat" && !target.empty()) run_.files[target] = *document;
    if (document && words[0] == "read") return builtins_.read_variable(words, *document), Truth::kUnknown;
    if (declares({}, words[0]) && std::ranges::find(words, "-A") != words.end())
      for (const std::string& name : words)
        if (is_shell_name(name) && name != words[0]) run_.maps[name];
    if (declares({}, words[0]) || run_.commands.size() > kMostCommands) return Truth::kYes;
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
    // "bash -c 'torchrun …'", and launchers that take the program's command as one word.
    for (std::size_t i = 1; i + 1 < words.size(); ++i)
      if ((words[i] == "-c" || words[i] == "-lc" || words[i] == "--command") && !words[i - 1].starts_with("python") &&
          (words[i - 1].ends_with("sh") ||
           (words[i + 1].find("--") != std::string::npos && words[i + 1].find_first_of(" \n") != std::string::npos))) {
        script(words[i + 1]);
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        break;
      }
    run_.commands.push_back(std::move(words));
    return Truth::kUnknown;
  }

  ShellRun& run_;
  const std::function<std::optional<std::string>(const std::string&)>& source_;
  const std::vector<ShellToken>* tokens_ = nullptr;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool broken_ = false;  // the loop has met `break`
  ShellExpansion words_;
  ShellBuiltins builtins_;
  std::map<std::string, std::vector<ShellToken>> functions_;
};

}  // namespace

ShellRun run_shell(std::string_view text, const std::function<std::optional<std::string>(const std::string&)>& source,
                   const std::vector<std::string>& arguments) {
  ShellRun run;
  Interpreter(run, source, arguments).script(text);
  return run;
}

}  // namespace weft::training
