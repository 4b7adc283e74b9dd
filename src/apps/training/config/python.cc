#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "apps/training/config/settings.h"
#include "base/text.h"

namespace weft::training {
namespace {

constexpr int kDeepest = 32;

// Tokens of Python as far as keyword arguments need them: names with dots, literals, brackets, ends of lines.
struct Token {
  enum class Kind : std::uint8_t { kName, kLiteral, kSign, kLine, kEnd } kind = Kind::kEnd;
  std::string text;
  int indent = 0;  // of a line that begins
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  std::vector<Token> tokens() {
    line();
    while (at_ < text_.size()) next();
    out_.push_back({Token::Kind::kLine, "", 0});
    out_.push_back({});
    return std::move(out_);
  }

 private:
  void line() {
    int indent = 0;
    for (; at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'); ++at_) ++indent;
    if (depth_ == 0) out_.push_back({Token::Kind::kLine, "", indent});
  }
  void next() {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      line();
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at_;
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '"' || c == '\'') {
      string(c);
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      std::string number;
      for (; at_ < text_.size() &&
             (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.' || text_[at_] == '_' ||
              ((text_[at_] == '-' || text_[at_] == '+') && (number.back() == 'e' || number.back() == 'E')));
           ++at_)
        number += text_[at_];
      out_.push_back({Token::Kind::kLiteral, std::move(number), 0});
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      std::string name;
      for (; at_ < text_.size() &&
             (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' || text_[at_] == '.');
           ++at_)
        name += text_[at_];
      const bool literal = name == "True" || name == "False" || name == "None";
      if ((name == "f" || name == "r" || name == "b") && at_ < text_.size() &&
          (text_[at_] == '"' || text_[at_] == '\''))
        return string(text_[at_]);
      out_.push_back({literal ? Token::Kind::kLiteral : Token::Kind::kName, std::move(name), 0});
    } else {
      if (std::string_view("([{").find(c) != std::string_view::npos) ++depth_;
      if (std::string_view(")]}").find(c) != std::string_view::npos && depth_ > 0) --depth_;
      if (c == '\\' && at_ + 1 < text_.size()) ++at_;
      out_.push_back({Token::Kind::kSign, std::string(1, c), 0});
      ++at_;
    }
  }
  void string(char quote) {
    const bool triple = text_.substr(at_).starts_with(std::string(3, quote));
    at_ += triple ? 3 : 1;
    std::string value;
    while (at_ < text_.size()) {
      if (triple ? text_.substr(at_).starts_with(std::string(3, quote)) : text_[at_] == quote || text_[at_] == '\n')
        break;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_++];
    }
    at_ = std::min(text_.size(), at_ + (triple ? 3 : 1));
    out_.push_back({Token::Kind::kLiteral, std::move(value), 0});
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<Token> out_;
};

using Kind = Token::Kind;

class Reader {
 public:
  explicit Reader(std::string_view text) : tokens_(Lexer(text).tokens()) {
    // SEQUENCE_LENGTH = 4096, and 8 * 1024, of the file itself.
    for (std::size_t i = 0; i + 4 < tokens_.size(); ++i) {
      if (tokens_[i].kind != Kind::kLine || tokens_[i].indent != 0 || tokens_[i + 1].kind != Kind::kName ||
          tokens_[i + 2].text != "=")
        continue;
      if (tokens_[i + 3].kind == Kind::kLiteral && tokens_[i + 4].kind == Kind::kLine)
        constants_.emplace(tokens_[i + 1].text, tokens_[i + 3].text);
      else if (const auto product = product_at(i + 3, Settings()))
        constants_.emplace(tokens_[i + 1].text, std::to_string(*product));
    }
    for (std::size_t i = 0; i + 2 < tokens_.size(); ++i)
      if (tokens_[i].kind == Kind::kLine && tokens_[i + 1].text == "def" && tokens_[i + 2].kind == Kind::kName) {
        std::size_t end = i + 3;
        const int indent = tokens_[i].indent;
        while (tokens_[end].kind != Kind::kEnd &&
               !(tokens_[end].kind == Kind::kLine && tokens_[end].indent <= indent &&
                 tokens_[end + 1].kind != Kind::kLine && tokens_[end + 1].kind != Kind::kEnd))
          ++end;
        functions_[tokens_[i + 2].text] = {i + 3, end};
        if (indent == 0) order_.push_back(tokens_[i + 2].text);
      }
  }

  // Names of functions that set something that training has.
  std::vector<std::string> configurations() const {
    std::vector<std::string> names;
    for (const std::string& name : order_) {
      Settings settings;
      read(name, settings, 0);
      static constexpr std::string_view kMarks[] = {
          "seq_len",          "seq_length",     "max_context_length",  "global_batch_size",
          "local_batch_size", "hf_assets_path", "model_spec.argument", "tensor_model_parallel_size"};
      if (std::ranges::any_of(kMarks, [&](std::string_view mark) { return settings.has(mark); })) names.push_back(name);
    }
    return names;
  }
  bool has(const std::string& name) const { return functions_.contains(name); }
  void read(const std::string& name, Settings& settings, int depth) const {
    if (depth > kDeepest) return;
    const auto [from, to] = functions_.at(name);
    settings.set("function", name);
    read(from, to, settings, depth);
    settings.set("function", name);
    if (const auto recipe = constants_.find("NAME"); recipe != constants_.end())
      settings.set("name_constant", recipe->second);
  }
  void whole(Settings& settings) const { read(0, tokens_.size(), settings, 0); }

 private:
  // Assignments and keyword arguments between two tokens. A call's argument has the call's own keyword before it.
  void read(std::size_t from, std::size_t to, Settings& settings, int depth) const {
    std::vector<std::string> path;  // the keyword before each open bracket, or empty
    std::string keyword;
    for (std::size_t i = from; i < to; ++i) {
      const Token& t = tokens_[i];
      if (t.kind == Kind::kSign && std::string_view("([{").find(t.text) != std::string_view::npos) {
        path.push_back(std::exchange(keyword, ""));
      } else if (t.kind == Kind::kSign && std::string_view(")]}").find(t.text) != std::string_view::npos) {
        if (!path.empty()) path.pop_back();
        keyword.clear();
      } else if (t.kind == Kind::kLine || t.text == ",") {
        keyword.clear();  // it had a plain value
      } else if (t.kind == Kind::kName && i + 1 < to && tokens_[i + 1].text == "(" && functions_.contains(t.text) &&
                 i > from && tokens_[i - 1].text != "def") {
        read(t.text, settings, depth + 1);
      } else if (t.kind == Kind::kName && i + 1 < to) {
        // TransformerActivationCheckpointingConfig(TransformerActivationCheckpointingMode.full)
        if (tokens_[i - (i > from ? 1 : 0)].text == "(" && !path.empty() && !path.back().empty() &&
            tokens_[i + 1].text == ")" && t.text.find('.') != std::string::npos)
          value(joined(path, "argument"), i, settings);
        // An element of a list that is made by a call: converters=[Float8LinearConverter.Config(…)].
        // TransformerConfig.olmo2_13B(…) of OLMo-core: the constructor is the model's name.
        if (tokens_[i + 1].text == "(" && t.text.starts_with("TransformerConfig.")) settings.set("model_call", t.text);
        if (tokens_[i + 1].text == "(" && i > from && tokens_[i - 1].text == "[")
          settings.set(joined(path, "call"), t.text);
        std::size_t at = i + 1;
        if (tokens_[at].text == ":" && !path.empty()) {  // an annotation: up to '='
          while (at < to && tokens_[at].text != "=" && tokens_[at].text != "," && tokens_[at].text != ")" &&
                 tokens_[at].kind != Kind::kLine)
            ++at;
        }
        if (at + 1 >= to || tokens_[at].text != "=" || tokens_[at + 1].text == "=") continue;
        keyword = key_of(t.text);
        value(joined(path, keyword), at + 1, settings);
        i = at;
      } else if (t.kind == Kind::kLiteral && i + 2 < to && tokens_[i + 1].text == ":" && !path.empty()) {
        value(joined(path, key_of(t.text)), i + 2, settings);  // of a dictionary
        keyword = key_of(t.text);
      } else if (t.kind == Kind::kLiteral && !path.empty() && !path.back().empty() && i > from &&
                 tokens_[i - 1].text == "(") {
        settings.set(joined(path, "argument"), t.text);  // model_registry("8B")
      }
    }
  }
  void value(const std::string& path, std::size_t at, Settings& settings) const {
    std::string sign;
    if (tokens_[at].text == "-") sign = "-", ++at;
    const Token& t = tokens_[at];
    const std::string_view after = tokens_[at + (t.kind == Kind::kEnd ? 0 : 1)].text;
    // "opts.sequence_length or 4096": what only the caller knows, and what holds without it.
    if (t.kind == Kind::kName && after == "or" && !settings.find(key_of(t.text))) return value(path, at + 2, settings);
    if (const auto product = product_at(at, settings)) {
      settings.set(path, sign + std::to_string(*product));
    } else if (t.kind == Kind::kName && constants_.contains(t.text)) {
      settings.set(path, constants_.at(t.text));
    } else if (t.kind == Kind::kLiteral) {
      settings.set(path, sign + t.text);
    } else if (t.text == "[" && !words_at(at + 1).empty()) {
      settings.set(path, words_at(at + 1));
    } else if (t.kind == Kind::kName && after == "(") {
      settings.set(path + ".call", t.text);  // activation_checkpoint=FullAC.Config()
    } else if (t.kind == Kind::kName && after != "(" && t.text.starts_with("torch.")) {
      settings.set(path, t.text);  // torch.bfloat16
    } else if (t.kind == Kind::kName && after != "(") {
      // cfg.model.seq_length, or a name of the same function; DataParallelType.hsdp is a word of an enumeration.
      const std::size_t dot = t.text.rfind('.');
      if (const auto other = settings.find(key_of(t.text)))
        settings.set(path, *other);
      else if (dot != std::string::npos && std::isupper(static_cast<unsigned char>(t.text[0])) != 0)
        settings.set(path, t.text.substr(dot + 1));
    }
  }
  // The literals of a list, "mlp,layernorm" of ["mlp", "layernorm"]; empty: it has others.
  std::string words_at(std::size_t at) const {
    std::string words;
    for (; tokens_[at].kind == Kind::kLiteral; at += 2) {
      words += (words.empty() ? "" : ",") + tokens_[at].text;
      if (tokens_[at + 1].text == "]" || tokens_[at + 2].text == "]") return words;
      if (tokens_[at + 1].text != ",") break;
    }
    return "";
  }
  // A product of numbers and of names that are known, two at least: 4 * 8192, 2048 * SEQUENCE_LENGTH.
  std::optional<std::int64_t> product_at(std::size_t at, const Settings& settings) const {
    std::int64_t product = 1;
    for (int factors = 1;; ++factors) {
      const Token& t = tokens_[at];
      std::string text = t.text;
      if (t.kind == Kind::kName) {
        const auto known = constants_.find(t.text);
        text = known != constants_.end() ? known->second : settings.find(key_of(t.text)).value_or("");
      } else if (t.kind != Kind::kLiteral) {
        return std::nullopt;
      }
      std::erase(text, '_');
      const auto factor = parse_integer("", text, 0, 1 << 30);
      if (!factor || (*factor > 0 && product > (std::int64_t{1} << 40) / *factor)) return std::nullopt;
      product *= *factor;
      const Token& after = tokens_[at + 1];
      if (after.text != "*" || tokens_[at + 2].text == "*") {
        const bool ends =
            after.kind != Kind::kSign || std::string_view(",)]}").find(after.text) != std::string_view::npos;
        return factors > 1 && ends ? std::optional(product) : std::nullopt;
      }
      at += 2;
    }
  }
  static std::string joined(const std::vector<std::string>& path, const std::string& last) {
    std::string out;
    for (const std::string& part : path)
      if (!part.empty()) out += part + ".";
    return out + last;
  }

  std::vector<Token> tokens_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> functions_;
  std::vector<std::string> order_;
  std::map<std::string, std::string> constants_;
};

}  // namespace

Result<Settings> python_settings(std::string_view file, std::string_view text, const std::string& function) {
  const Reader reader(text);
  Settings settings;
  if (!function.empty()) {
    if (!reader.has(function))
      return bad_input("{}: no function {}; there are {}", file, shown(function),
                       fmt::join(reader.configurations(), ", "));
    reader.read(function, settings, 0);
    return settings;
  }
  const std::vector<std::string> names = reader.configurations();
  if (names.size() > 1)
    return bad_input("{}: {} configurations; name one, e.g. {}:{} ({})", file, names.size(), file, names.back(),
                     fmt::join(names, ", "));
  if (names.size() == 1)
    reader.read(names[0], settings, 0);
  else
    reader.whole(settings);
  return settings;
}

}  // namespace weft::training
