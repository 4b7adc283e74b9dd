#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/models/model.h"

namespace weft::models {

// The keys of one config.json: the language model's section, then what stands around it, then the defaults of its
// family. The first error is kept; what follows it answers with harmless values.
class Keys {
 public:
  using Json = nlohmann::json;

  // All three live at least as long as this.
  Keys(std::string_view file, const Json& section, const Json& whole, const Json& defaults, Need need = Need::kModel)
      : file_(file), section_(section), whole_(whole), defaults_(defaults), need_(need) {}

  // The value below the first of `names` that is there and not null, or null. A name may lead into an object:
  // "attn_config.kv_n_heads".
  const Json* find(std::initializer_list<const char*> names) const;
  // A count from 0 to 2^40.
  std::optional<std::int64_t> count(std::initializer_list<const char*> names);
  // A count of at least 1 that must be there.
  std::int64_t need(std::initializer_list<const char*> names);
  // The same where the whole model is asked for, else any count.
  std::int64_t need_of_model(std::initializer_list<const char*> names) {
    return need_ == Need::kModel ? need(names) : count_or(names, 0);
  }
  std::int64_t count_or(std::initializer_list<const char*> names, std::int64_t otherwise) {
    return count(names).value_or(otherwise);
  }
  // Element `layer` of a list, or the count itself.
  std::optional<std::int64_t> count_of_layer(std::initializer_list<const char*> names, std::int64_t layer);
  // Element `layer` of a list of words, or empty.
  std::string word_of_layer(const char* name, std::int64_t layer) const;
  std::string word(std::initializer_list<const char*> names) const;
  bool flag(const char* name, bool otherwise) const;
  bool has(const char* name) const { return find({name}) != nullptr; }

  bool asks_for_model() const { return need_ == Need::kModel; }
  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }
  const std::string& file() const { return file_; }

 private:
  std::optional<std::int64_t> as_count(const char* name, const Json& value);

  std::string file_;
  const Json& section_;
  const Json& whole_;
  const Json& defaults_;
  Need need_;
  std::string error_;
};

}  // namespace weft::models
