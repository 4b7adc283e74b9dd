#include "apps/training/config/known_keys.h"

#include <nlohmann/json.hpp>

#include "apps/training/files.h"

namespace weft::training {

using nlohmann::json;

const json& known_keys() {
  static const json all = [] {
    for (const auto& file : embedded::training_files())
      if (file.path == "data/training/config_keys.json") return json::parse(file.text);
    return json();
  }();
  return all;
}

}  // namespace weft::training
