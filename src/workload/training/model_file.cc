#include <filesystem>

#include "base/text_file.h"
#include "workload/training/model.h"

namespace weft::training {

Result<Model> load_model_file(const std::string& name) {
  std::filesystem::path path = name;
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) path /= "config.json";
  if (!std::filesystem::exists(path, none))
    return bad_input("model {}: neither a file nor one of {}", name, fmt::join(model_names(), ", "));
  WEFT_TRY(const std::string text, read_text_file(path));
  return parse_model(path.string(), text);
}

}  // namespace weft::training
