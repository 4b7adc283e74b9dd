#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/models/model.h"

namespace weft::models {

// The weights' types of a quantization_config, in the section of the language model or around it, into `model`:
// `quantization`, or `quantization_unknown` where bits or type are none of those that are modelled.
void read_quantization(std::string_view file, const nlohmann::json& whole, const nlohmann::json& section, Model& model);

// What a name like "nvidia/DeepSeek-R1-NVFP4" says of its weights: "fp8", "nvfp4", "mxfp4", "int4", "bf16"; empty:
// nothing.
std::string quantization_of_name(std::string_view name);

}  // namespace weft::models
