#include "tests/ptx/parser.h"

#include <charconv>
#include <cstring>
#include <optional>

namespace weft::ptx {
namespace {

tl::unexpected<Error> unsupported(std::string_view what) {
  return failure(Code::kUnsupported, Blame::kInput, "PTX that the interpreter does not know: {}", what);
}

std::optional<std::uint64_t> number(std::string_view word) {
  const auto parse = [](std::string_view digits, int base) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    if (digits.ends_with('U')) digits.remove_suffix(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return value;
  };
  if (word.empty() || word[0] < '0' || word[0] > '9') return std::nullopt;
  if (word.size() > 2 && word[0] == '0') {
    const char kind = word[1];
    if (kind == 'x' || kind == 'X' || kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D')
      return parse(word.substr(2), 16);
  }
  return parse(word, 10);
}

constexpr std::pair<std::string_view, Special> kSpecials[] = {
    {"%tid.x", Special::kTidX},       {"%tid.y", Special::kTidY},       {"%tid.z", Special::kTidZ},
    {"%ntid.x", Special::kNtidX},     {"%ntid.y", Special::kNtidY},     {"%ntid.z", Special::kNtidZ},
    {"%ctaid.x", Special::kCtaidX},   {"%ctaid.y", Special::kCtaidY},   {"%ctaid.z", Special::kCtaidZ},
    {"%nctaid.x", Special::kNctaidX}, {"%nctaid.y", Special::kNctaidY}, {"%nctaid.z", Special::kNctaidZ},
    {"%laneid", Special::kLane},      {"WARP_SZ", Special::kWarpSize},  {"%globaltimer", Special::kGlobalTimer},
    {"%clock64", Special::kClock},    {"%clock", Special::kClock}};

Instruction of(Op op, std::string_view text) {
  Instruction made;
  made.op = op, made.text = text;
  return made;
}

std::size_t aligned(std::size_t at, std::size_t to) { return (at + to - 1) / to * to; }

// One kernel while it is read: names by scope, jumps that wait for their labels.
class Reader final : public Names {
 public:
  Reader(Lexer at, const Places& globals) : at_(at), globals_(globals) { scopes_.emplace_back(); }

  Result<std::unique_ptr<Kernel>> read(const std::vector<Variable>& shared) {
    kernel_->name = at_.next();
    for (const Variable& variable : shared) place(variable, kernel_->shared_bytes);
    WEFT_CHECK(read_parameters());
    while (!at_.at_end() && at_.peek() != "{") at_.next();  // .maxntid and the like
    at_.next();
    WEFT_CHECK(read_body());
    for (auto& [instruction, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) return unsupported(label);
      kernel_->code[instruction].target = found->second;
    }
    kernel_->code.push_back(of(Op::kExit, "the kernel's end"));
    kernel_->shared_bytes = aligned(kernel_->shared_bytes, 16);
    return std::move(kernel_);
  }

  Result<Operand> operand(const std::vector<std::string_view>& words) override {
    Operand operand;
    std::size_t at = 0;
    bool minus = false;
    std::uint64_t sum = 0;
    for (; at < words.size(); ++at) {
      const std::string_view word = words[at];
      if (word == "!") {
        operand.negated = true;
      } else if (word == "-") {
        minus = !minus;
      } else if (word == "+") {
        minus = false;
      } else if (const auto value = number(word)) {
        sum += minus ? -*value : *value;
        minus = false;
        if (!operand) operand.kind = Operand::Kind::kImmediate;
      } else if (const auto* reg = find_register(word)) {
        operand.kind = Operand::Kind::kRegister;
        operand.at = *reg;
      } else if (const auto found = places_.find(word); found != places_.end()) {
        operand.kind = Operand::Kind::kImmediate;
        sum += found->second;
      } else if (const auto global = globals_.find(word); global != globals_.end()) {
        operand.kind = Operand::Kind::kImmediate;
        sum += global->second;
      } else if (word == "_") {
        return Operand{};
      } else {
        for (const auto& [name, special] : kSpecials)
          if (word == name) operand = {.kind = Operand::Kind::kSpecial, .at = static_cast<std::uint32_t>(special)};
        if (!operand) return unsupported(word);
      }
    }
    operand.value = sum;  // beside a register: the offset of an address
    return operand;
  }

 private:
  const std::uint32_t* find_register(std::string_view word) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(word); found != scope->end()) return &found->second;
    return nullptr;
  }
  void place(const Variable& variable, std::size_t& end) {
    end = aligned(end, variable.align);
    places_[variable.name] = end;
    end += variable.bytes;
  }
  Status read_parameters() {
    if (!at_.take("(")) return {};
    while (!at_.take(")")) {
      if (at_.take(",")) continue;
      if (!at_.take(".param")) return unsupported(at_.peek());
      WEFT_TRY(const Variable parameter, read_variable(at_));
      place(parameter, kernel_->parameter_bytes);
      kernel_->parameters.push_back({kernel_->parameter_bytes - parameter.bytes, parameter.bytes});
    }
    return {};
  }
  Status read_body() {
    for (int depth = 1; depth > 0;) {
      if (at_.at_end()) return unsupported("a kernel without an end");
      if (at_.take("{")) {
        ++depth, scopes_.emplace_back();
      } else if (at_.take("}")) {
        --depth, scopes_.pop_back();
      } else if (at_.take(".reg")) {
        WEFT_CHECK(declare_registers());
      } else if (at_.take(".shared")) {
        WEFT_CHECK(declare(kernel_->shared_bytes));
      } else if (at_.take(".local")) {
        WEFT_CHECK(declare(kernel_->local_bytes));
      } else if (at_.take(".param")) {  // of calls
        WEFT_CHECK(declare(call_bytes_));
      } else if (at_.peek().starts_with(".")) {
        at_.skip_statement();
      } else {
        WEFT_CHECK(read_instruction());
      }
    }
    return {};
  }
  Status declare(std::size_t& end) {
    WEFT_TRY(const Variable variable, read_variable(at_));
    if (!at_.take(";")) return unsupported(at_.peek());
    place(variable, end);
    return {};
  }
  Status declare_registers() {
    at_.next();  // the type: instructions say how they read them
    do {
      const std::string name(at_.next());
      if (!at_.take("<")) {
        scopes_.back()[name] = kernel_->registers++;
        continue;
      }
      const auto count = number(at_.next());
      if (!count || !at_.take(">")) return unsupported(name);
      for (std::uint64_t i = 0; i < *count; ++i) scopes_.back()[name + std::to_string(i)] = kernel_->registers++;
    } while (at_.take(","));
    return at_.take(";") ? Status() : unsupported(at_.peek());
  }
  Status read_instruction() {
    const std::size_t begin = at_.place();
    Operand guard;
    if (at_.take("@")) {
      std::vector<std::string_view> words;
      if (at_.peek() == "!") words.push_back(at_.next());
      words.push_back(at_.next());
      WEFT_TRY(guard, operand(words));
    }
    Statement statement;
    const std::string_view name = at_.next();
    if (at_.take(":")) {
      labels_[std::string(name)] = static_cast<std::uint32_t>(kernel_->code.size());
      return {};
    }
    for (std::size_t from = 0; from <= name.size();) {
      const std::size_t dot = std::min(name.find('.', from), name.size());
      statement.modifiers.push_back(name.substr(from, dot - from));
      from = dot + 1;
    }
    for (int depth = 0; !at_.take(";");) {
      if (at_.at_end()) return unsupported(name);
      const std::string_view word = at_.next();
      if (statement.arguments.empty()) statement.arguments.emplace_back();
      depth += word == "{" || word == "[" || word == "(";
      depth -= word == "}" || word == "]" || word == ")";
      if (depth == 0 && word == ",")
        statement.arguments.emplace_back();
      else
        statement.arguments.back().push_back(word);
    }
    statement.text = at_.text().substr(begin, at_.place() - begin);
    if (const auto end = statement.text.find(';'); end != std::string_view::npos)
      statement.text = statement.text.substr(0, end);
    if (statement.modifiers[0] == "bra") {
      jumps_.emplace_back(kernel_->code.size(), std::string(statement.arguments.at(0).at(0)));
      kernel_->code.push_back(of(Op::kBranch, statement.text));
      kernel_->code.back().guard = guard;
      return {};
    }
    WEFT_TRY(Instruction made, decode(statement, *this));
    made.guard = guard;
    kernel_->code.push_back(std::move(made));
    return {};
  }

  Lexer at_;
  const Places& globals_;
  std::unique_ptr<Kernel> kernel_ = std::make_unique<Kernel>();
  std::vector<std::map<std::string, std::uint32_t, std::less<>>> scopes_;
  Places places_;
  std::size_t call_bytes_ = 0;
  std::map<std::string, std::uint32_t, std::less<>> labels_;
  std::vector<std::pair<std::size_t, std::string>> jumps_;
};

}  // namespace

Result<Variable> read_variable(Lexer& at) {
  Variable variable;
  std::size_t element = 1;
  for (; at.peek().starts_with(".");) {
    const std::string_view word = at.next().substr(1);
    if (word == "align") {
      variable.align = number(at.next()).value_or(1);
    } else if (const auto type = type_named(word)) {
      element = static_cast<std::size_t>(size_of(*type));
    } else if (word == "ptr" || word == "global" || word == "const" || word == "shared") {
      continue;  // what a parameter points to
    } else {
      return unsupported(word);
    }
  }
  variable.name = at.next();
  std::size_t count = 1;
  if (at.take("[")) {
    count = number(at.peek()).value_or(0);  // none: as much as the launch says
    if (count != 0) at.next();
    if (!at.take("]")) return unsupported(variable.name);
  }
  variable.align = std::max(variable.align, element);
  variable.bytes = count * element;
  if (at.take("=")) {
    variable.initial.resize(variable.bytes);
    std::size_t filled = 0;
    const bool many = at.take("{");
    do {
      const auto value = number(at.next());
      if (!value || filled + element > variable.bytes) return unsupported("an initial value of " + variable.name);
      std::memcpy(variable.initial.data() + filled, &*value, element);
      filled += element;
    } while (many && at.take(","));
    if (many && !at.take("}")) return unsupported("an initial value of " + variable.name);
  }
  return variable;
}

Result<std::unique_ptr<Kernel>> read_kernel(Lexer at, const Places& globals, const std::vector<Variable>& shared) {
  return Reader(at, globals).read(shared);
}

}  // namespace weft::ptx
