#include <filesystem>

#include "apps/training/model.h"
#include "base/models/model.h"
#include "base/text_file.h"

namespace weft::training {

Result<Model> load_model_file(const std::string& name) {
  std::filesystem::path path = name;
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) path /= "config.json";
  if (!std::filesystem::exists(path, none))
    return bad_input("{}; and no such file: give its config.json", models::load(name).error().message);
  WEFT_TRY(const std::string text, read_text_file(path));
  return parse_model(path.string(), text);
}

}  // namespace weft::training
