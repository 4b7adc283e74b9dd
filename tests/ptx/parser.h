#pragma once

#include <map>
#include <optional>
#include <set>

#include "tests/ptx/instruction.h"
#include "tests/ptx/lexer.h"

namespace weft::ptx {

// Bytes of variables in memory, by name: of a module, or of one kernel's shared, local and parameter space.
using Places = std::map<std::string, std::uint64_t, std::less<>>;

// A variable's declaration, from its alignment to the semicolon or the comma.
struct Variable {
  std::string name;
  std::size_t align = 1, bytes = 0;
  std::vector<std::byte> initial;
};
// `at` stands behind the directive of the space. Errors: kUnsupported.
Result<Variable> read_variable(Lexer& at);

// The kernel whose name `at` stands before. `globals`: addresses of the module's variables; `shared`: sizes of those it
// declares in shared memory. Errors: kUnsupported, with the instruction.
Result<std::unique_ptr<Kernel>> read_kernel(Lexer at, const Places& globals, const std::vector<Variable>& shared);

// "u32", "b64" (as unsigned), "pred".
std::optional<Type> type_named(std::string_view name);

// An instruction's words, from its name to before the semicolon, as read_kernel splits them.
struct Statement {
  std::vector<std::string_view> modifiers;               // the name's parts; the first says what it is
  std::vector<std::vector<std::string_view>> arguments;  // by commas outside of brackets
  std::string_view text;

  bool has(std::string_view modifier) const {
    for (const auto& m : modifiers)
      if (m == modifier) return true;
    return false;
  }
};

// The meaning of names in a place of a kernel.
class Names {
 public:
  virtual ~Names() = default;
  // Errors: unknown.
  virtual Result<Operand> operand(const std::vector<std::string_view>& words) = 0;
};

// The instruction but for its guard and target. Errors: kUnsupported.
Result<Instruction> decode(const Statement& statement, Names& names);

}  // namespace weft::ptx
