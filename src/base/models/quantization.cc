#include "base/models/quantization.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "base/text.h"

namespace weft::models {
namespace {

using nlohmann::json;

std::string word_of(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// The object below `key`; null: there is none.
json below(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return at != object.end() && at->is_object() ? *at : json();
}

std::int64_t bits_of(const json& object, std::initializer_list<const char*> keys, std::int64_t otherwise) {
  for (const char* key : keys)
    if (object.is_object())
      if (const auto at = object.find(key); at != object.end() && at->is_number_integer())
        return at->get<std::int64_t>();
  return otherwise;
}

// Weights of `bits` bits that meet activations of 16 bits.
std::string weights_only(std::int64_t bits) { return bits == 4 ? "int4" : bits == 8 ? "w8a16" : ""; }

// One group of compressed-tensors: weights and activations, each with bits and type.
std::string of_group(const json& group) {
  const json weights = below(group, "weights"), inputs = below(group, "input_activations");
  const std::int64_t bits = bits_of(weights, {"num_bits"}, 0), inputs_bits = bits_of(inputs, {"num_bits"}, 16);
  const bool floats = word_of(weights, "type") == "float";
  if (!inputs.is_object()) return floats && bits != 8 ? "" : weights_only(bits);
  if (bits != inputs_bits) return "";
  if (bits == 8 && floats) return word_of(weights, "strategy") == "block" ? "fp8_block" : "fp8";
  if (bits == 8) return "int8";
  return bits == 4 && floats && bits_of(weights, {"group_size"}, 16) == 16 ? "nvfp4" : "";
}

std::string of_compressed_tensors(const json& q) {
  if (word_of(q, "format") == "mxfp4-pack-quantized") return "mxfp4";
  const auto groups = q.find("config_groups");
  if (groups == q.end() || !groups->is_object()) return weights_only(bits_of(q, {"num_bits"}, 0));
  std::string found;
  for (const auto& [name, group] : groups->items()) {
    const std::string one = of_group(group);
    if (one.empty() || (!found.empty() && one != found)) return "";
    found = one;
  }
  return found;
}

std::string of_word(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kKnown = {
      {{"FP8", "fp8"},
       {"NVFP4", "nvfp4"},
       {"int8", "w8a16"},
       {"int4", "int4"},
       {"float8", "w8a16"},
       {"int8_weight_only", "w8a16"},
       {"int4_weight_only", "int4"},
       {"float8_weight_only", "w8a16"},
       {"int8_dynamic_activation_int8_weight", "int8"},
       {"float8_dynamic_activation_float8_weight", "fp8"},
       {"fp8_e4m3", "fp8"},
       {"FP8_PER_CHANNEL_PER_TOKEN", "fp8"},
       {"FP8_PB_WO", "w8a16"},
       {"W4A16_AWQ", "int4"}}};
  const auto at = std::ranges::find(kKnown, word, [](const auto& pair) { return pair.first; });
  return at == kKnown.end() ? "" : std::string(at->second);
}

// The method's words decide; empty: bits or type are none that are modelled.
std::string type_of(const json& q, const std::string& method) {
  if (method == "fp8") return q.contains("weight_block_size") ? "fp8_block" : "fp8";
  if (method == "fbgemm_fp8") return "fp8";
  if (method == "mxfp4") return "mxfp4";
  if (method == "modelopt_fp4") return "nvfp4";
  if (method == "modelopt") return of_word(word_of(q, "quant_algo"));
  if (method == "compressed-tensors") return of_compressed_tensors(q);
  if (method == "awq" || method == "gptq" || method == "auto-round")
    return weights_only(bits_of(q, {"bits", "w_bit", "num_bits"}, 4));
  const auto set = [&](const char* key) { return q.contains(key) && q[key] == true; };
  if (method == "bitsandbytes") return set("load_in_4bit") ? "int4" : set("load_in_8bit") ? "w8a16" : "";
  if (method == "hqq")
    return weights_only(bits_of(below(below(q, "quant_config"), "weight_quant_params"), {"nbits"}, 0));
  if (method == "quanto") return of_word(word_of(q, "weights"));
  if (method == "torchao") return of_word(word_of(q, "quant_type"));
  if (method == "quark") return of_word(word_of(below(below(q, "global_quant_config"), "weight"), "dtype"));
  return "";
}

// The keys that say what the weights are, for a message.
std::string details(const json& q) {
  std::string text;
  for (const char* key : {"quant_algo", "bits", "w_bit", "num_bits", "format", "quant_type", "weights", "nbits"})
    if (const auto at = q.find(key); at != q.end() && at->is_primitive())
      text += fmt::format(", {} {}", key, shown(at->is_string() ? at->get<std::string>() : at->dump()));
  return text;
}

}  // namespace

void read_quantization(std::string_view file, const json& whole, const json& section, Model& model) {
  const json* q = nullptr;
  for (const json* from : {&section, &whole})
    if (const auto at = from->find("quantization_config"); q == nullptr && at != from->end() && at->is_object())
      q = &*at;
  if (q == nullptr) return;
  const std::string method = word_of(*q, "quant_method");
  model.quantization = type_of(*q, method);
  if (model.quantization.empty()) {
    model.left_out.push_back(fmt::format("quantization_config ({})", shown(method)));
    model.quantization_unknown = fmt::format("{}: quantization_config.quant_method {}{} is not modelled", file,
                                             method.empty() ? "(missing)" : shown(method), details(*q));
  }
  for (const char* list : {"modules_to_not_convert", "ignore", "exclude_modules"})
    if (const auto at = q->find(list); at != q->end() && at->is_array())
      for (const json& module : *at)
        if (module.is_string() && module.get<std::string>().find("self_attn") != std::string::npos &&
            module.get<std::string>().find("norm") == std::string::npos)
          model.attention_unquantized = true;
}

std::string quantization_of_name(std::string_view name) {
  std::string word;
  std::string found;
  const auto flush = [&] {
    for (const auto& [said, type] : {std::pair{"fp8", "fp8"},
                                     {"nvfp4", "nvfp4"},
                                     {"fp4", "nvfp4"},
                                     {"mxfp4", "mxfp4"},
                                     {"awq", "int4"},
                                     {"gptq", "int4"},
                                     {"int4", "int4"},
                                     {"bf16", "bf16"}})
      if (word == said) found = type;
    word.clear();
  };
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      flush();
  flush();
  return found;
}

}  // namespace weft::models
