#pragma once

#include <nlohmann/json_fwd.hpp>

namespace weft::training {

// data/training/config_keys.json: vocabularies of tokenizers, keys that matter, keys that do not.
const nlohmann::json& known_keys();

}  // namespace weft::training
