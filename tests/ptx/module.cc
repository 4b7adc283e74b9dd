#include <cstring>

#include "tests/ptx/parser.h"

namespace weft::ptx {

struct Module::Text {
  std::string text;
  std::map<std::string, std::size_t, std::less<>> entries;  // where names of kernels stand
  std::vector<Variable> shared;
  Places globals;
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory;  // of globals
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;

  Status read() {
    Lexer at(text);
    while (!at.at_end()) {
      if (at.take(".entry")) {
        entries.emplace(at.peek(), at.place());
        at.skip_statement();
      } else if (at.take(".global") || at.take(".const")) {
        WEFT_TRY(const Variable variable, read_variable(at));
        auto& bytes = *memory.emplace_back(std::make_unique<std::vector<std::byte>>(variable.initial));
        bytes.resize(variable.bytes);
        globals[variable.name] = reinterpret_cast<std::uint64_t>(bytes.data());
        at.take(";");
      } else if (at.take(".shared")) {
        WEFT_TRY(shared.emplace_back(), read_variable(at));
        at.take(";");
      } else if (at.take(".func")) {
        at.skip_statement();
      } else {
        at.next();
      }
    }
    return {};
  }
};

Module::Module(std::unique_ptr<Text> text) : text_(std::move(text)) {}
Module::~Module() = default;

Result<std::unique_ptr<Module>> Module::read(std::string text) {
  auto made = std::make_unique<Text>();
  made->text = std::move(text);
  WEFT_CHECK(made->read());
  return std::unique_ptr<Module>(new Module(std::move(made)));
}

Result<const Kernel*> Module::kernel(const std::string& name) {
  if (const auto known = text_->kernels.find(name); known != text_->kernels.end()) return known->second.get();
  const auto entry = text_->entries.find(name);
  if (entry == text_->entries.end())
    return failure(Code::kNotFound, Blame::kInput, "the module has no kernel {}", name);
  WEFT_TRY(auto made, read_kernel(Lexer(text_->text, entry->second), text_->globals, text_->shared));
  return (text_->kernels[name] = std::move(made)).get();
}

const std::vector<Parameter>& parameters(const Kernel& kernel) { return kernel.parameters; }
std::size_t parameter_bytes(const Kernel& kernel) { return kernel.parameter_bytes; }

}  // namespace weft::ptx
