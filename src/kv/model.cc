#include "kv/model.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"

namespace weft::kv {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = 1 << 20;  // of any number in a config

Result<std::optional<std::int64_t>> number(const json& config, const char* field, const std::string& where) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (!found->is_number_integer() || *found < 1 || *found > kMost)
    return bad_input("{}: {} is {}, not a number from 1 to {}", where, field, shown(found->dump()), kMost);
  return found->get<std::int64_t>();
}

Result<std::int64_t> needed(const json& config, const char* field, const std::string& where) {
  WEFT_TRY(const auto value, number(config, field, where));
  if (!value) return bad_input("{}: {} is missing", where, field);
  return *value;
}

Result<std::int64_t> element_bytes(const std::string& type, const std::string& where) {
  for (const auto& [name, bytes] :
       std::initializer_list<std::pair<std::string_view, std::int64_t>>{{"float32", 4},
                                                                        {"float16", 2},
                                                                        {"bfloat16", 2},
                                                                        {"float8", 1},
                                                                        {"fp8", 1},
                                                                        {"float8_e4m3fn", 1},
                                                                        {"int8", 1}})
    if (type == name) return bytes;
  return bad_input("{}: unknown type '{}'; there are float32, float16, bfloat16, fp8 and int8", where, shown(type));
}

std::string type_of(const json& config) {
  for (const char* field : {"torch_dtype", "dtype"})
    if (const auto found = config.find(field); found != config.end() && found->is_string()) return *found;
  return "bfloat16";
}

}  // namespace

Result<ModelShape> parse_model(std::string_view text, const std::string& where, const std::string& type) {
  const json whole = json::parse(text, nullptr, false);
  if (!whole.is_object()) return bad_input("{} is not a JSON object", where);
  const auto nested = whole.find("text_config");  // models of several modalities
  const json& config = nested != whole.end() && nested->is_object() ? *nested : whole;
  ModelShape model;
  model.type = !type.empty()                                                ? type
               : config.contains("torch_dtype") || config.contains("dtype") ? type_of(config)
                                                                            : type_of(whole);
  WEFT_TRY(const std::int64_t element, element_bytes(model.type, where));
  WEFT_TRY(model.layers, needed(config, "num_hidden_layers", where));
  WEFT_TRY(const auto latent, number(config, "kv_lora_rank", where));
  if (latent) {
    WEFT_TRY(const std::int64_t rotary, needed(config, "qk_rope_head_dim", where));
    model.latent_bytes = (*latent + rotary) * element;
    return model;
  }
  WEFT_TRY(const std::int64_t heads, needed(config, "num_attention_heads", where));
  WEFT_TRY(const auto kv_heads, number(config, "num_key_value_heads", where));
  WEFT_TRY(const auto head, number(config, "head_dim", where));
  model.kv_heads = kv_heads.value_or(heads);
  if (heads % model.kv_heads != 0)
    return bad_input("{}: {} attention heads are no multiple of {} heads of keys and values", where, heads,
                     model.kv_heads);
  if (!head) {
    WEFT_TRY(const std::int64_t hidden, needed(config, "hidden_size", where));
    if (hidden % heads != 0) return bad_input("{}: hidden_size {} is no multiple of {} heads", where, hidden, heads);
    model.head_bytes = hidden / heads * element;
  } else {
    model.head_bytes = *head * element;
  }
  return model;
}

Status check_tp(const ModelShape& model, std::int64_t tp) {
  if (tp < 1 || tp > kMost) return bad_input("--tp {}: a number of ranks from 1", tp);
  if (!model.mla() && model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
    return bad_input("--tp {}: {} heads cannot be spread evenly over {} ranks", tp, model.kv_heads, tp);
  return {};
}

}  // namespace weft::kv
