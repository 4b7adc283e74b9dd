#include "tests/host_cuda/registry.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace weft::host_cuda {
namespace {

// The layout of what nvcc embeds, as far as it is read here: a head, then parts with a head each.
struct Head {
  std::uint32_t magic;
  std::uint16_t version, head_bytes;
  std::uint64_t bytes;
};
struct Part {
  std::uint16_t kind, version;
  std::uint32_t head_bytes;
  std::uint64_t bytes;
};
constexpr std::uint32_t kMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;

std::string plain_text(const void* fatbin) {
  const auto* at = static_cast<const std::byte*>(fatbin);
  Head head{};
  std::memcpy(&head, at, sizeof head);
  if (head.magic != kMagic) return {};
  at += head.head_bytes;
  for (const auto* const end = at + head.bytes; at + sizeof(Part) <= end;) {
    Part part{};
    std::memcpy(&part, at, sizeof part);
    const std::string text(reinterpret_cast<const char*>(at + part.head_bytes), part.bytes);
    // Compressed text has no such line.
    if (part.kind == kPtx && text.find(".address_size") != text.npos) return text.substr(0, text.find('\0'));
    at += part.head_bytes + part.bytes;
  }
  return {};
}

// WEFT_MODEL_REPLACE="old=new": everywhere in the text, so that tests can break kernels. In `old` a space is white
// space of any length, and @ a semicolon, which ends values of CMake's lists.
std::string replaced(const std::string& text) {
  const char* const setting = std::getenv("WEFT_MODEL_REPLACE");
  if (setting == nullptr) return text;
  const std::string all = setting;
  const std::size_t split = std::min(all.find('='), all.size());
  const std::string from = all.substr(0, split), to = split < all.size() ? all.substr(split + 1) : "";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    const bool same = std::all_of(from.begin(), from.end(), [&](char c) {
      if (c != ' ') return end < text.size() && text[end++] == (c == '@' ? ';' : c);
      const std::size_t begin = end;
      while (end < text.size() && (text[end] == ' ' || text[end] == '\t')) ++end;
      return end > begin;
    });
    if (same && !from.empty())
      result += to, at = end;
    else
      result += text[at++];
  }
  return result;
}

}  // namespace

Registry& Registry::get() {
  static Registry& registry = *new Registry;
  return registry;
}

void** Registry::add_binary(const void* fatbin) {
  const std::lock_guard guard(mutex_);
  binaries_.push_back(std::make_unique<Binary>(Binary{replaced(plain_text(fatbin)), nullptr}));
  return reinterpret_cast<void**>(binaries_.back().get());
}

void Registry::add_kernel(void** binary, const void* function, const char* name) {
  const std::lock_guard guard(mutex_);
  functions_[function] = {reinterpret_cast<Binary*>(binary), name};
}

Result<const ptx::Kernel*> Registry::kernel(const void* function) {
  const std::lock_guard guard(mutex_);
  const auto found = functions_.find(function);
  if (found == functions_.end()) return failure(Code::kNotFound, Blame::kInput, "no kernel is registered there");
  Function& known = found->second;
  if (known.kernel != nullptr) return known.kernel;
  Binary& binary = *known.binary;
  if (binary.text.empty())
    return failure(Code::kUnsupported, Blame::kInput,
                   "{}: no plain PTX (nvcc -gencode arch=compute_90,code=compute_90 --no-compress)", known.name);
  if (binary.module == nullptr) {
    WEFT_TRY(binary.module, ptx::Module::read(binary.text));
  }
  WEFT_TRY(known.kernel, binary.module->kernel(known.name));
  return known.kernel;
}

}  // namespace weft::host_cuda
