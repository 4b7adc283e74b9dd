#include "move/reshard/read.h"

#include "base/text_file.h"
#include "move/reshard/layout_json.h"
#include "move/reshard/safetensors.h"
#include "move/reshard/tensor_parallel.h"

namespace weft::reshard {
namespace {

Result<Layout> read_layout(const std::string& file, const char* which) {
  if (file.starts_with("{")) return parse_layout(which, file);
  if (is_safetensors(file)) return read_safetensors(file);
  WEFT_TRY(const std::string text, read_text_file(file, std::uintmax_t{1} << 30));
  return parse_layout(file, text);
}

}  // namespace

Result<std::pair<Layout, Layout>> read_layouts(const std::string& from, const std::string& to) {
  const bool from_named = is_tensor_parallel(from), to_named = is_tensor_parallel(to);
  if (from_named && to_named)
    return bad_input("--from {} --to {}: one of them must be a file, which says what tensors there are", from, to);
  std::pair<Layout, Layout> layouts;
  if (!from_named) {
    WEFT_TRY(layouts.first, read_layout(from, "from"));
  }
  if (!to_named) {
    WEFT_TRY(layouts.second, read_layout(to, "to"));
  }
  if (from_named) {
    auto layout = tensor_parallel(from, layouts.second);
    if (!layout) return bad_input("--from {}", layout.error().message);
    layouts.first = std::move(*layout);
  }
  if (to_named) {
    auto layout = tensor_parallel(to, layouts.first);
    if (!layout) return bad_input("--to {}", layout.error().message);
    layouts.second = std::move(*layout);
  }
  return layouts;
}

}  // namespace weft::reshard
