// Files in the page: those that the user has dropped on it, which never leave it. Takes the place of base/text_file.cc and
// apps/training/model_file.cc.

#include <map>
#include <string>

#include "base/text.h"
#include "base/text_file.h"
#include "web/core/files.h"
#include "apps/training/model.h"

namespace weft {
namespace {

std::map<std::string, std::string, std::less<>>& dropped() {
  static std::map<std::string, std::string, std::less<>> files;
  return files;
}

}  // namespace

namespace web {
void drop_file(std::string name, std::string text) { dropped()[std::move(name)] = std::move(text); }
}  // namespace web

bool file_exists(const std::filesystem::path& file) { return dropped().contains(file.string()); }

Result<std::string> read_text_file(const std::filesystem::path& file, std::uintmax_t largest) {
  const auto at = dropped().find(file.string());
  if (at == dropped().end()) return bad_input("{}: drop this file on the page first", shown(file.string()));
  if (at->second.size() > largest)
    return bad_input("{}: {} bytes are more than the {} MiB read at most", shown(file.string()), at->second.size(),
                     largest >> 20);
  return at->second;
}

namespace training {
Result<Model> load_model_file(const std::string& name) {
  if (!file_exists(name))
    return bad_input("model {}: neither a dropped file nor one of {}", shown(name), fmt::join(model_names(), ", "));
  WEFT_TRY(const std::string text, read_text_file(name));
  return parse_model(name, text);
}
}  // namespace training

}  // namespace weft
