#include "base/models/keys.h"

#include "base/text.h"

namespace weft::models {
namespace {

// Bounds of counts, so that products of three and their sums over a layer stay below 2^63.
constexpr std::int64_t kMost = std::int64_t{1} << 20;
constexpr std::int64_t kMostExperts = std::int64_t{1} << 16;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

std::int64_t bound_of(std::string_view name) {
  for (const char* part : {"position", "seq", "window", "chunk"})
    if (name.find(part) != std::string_view::npos) return kMostTokens;
  if (name.find("vocab") != std::string_view::npos) return std::int64_t{1} << 28;
  return name.find("expert") != std::string_view::npos && name.find("size") == std::string_view::npos ? kMostExperts
                                                                                                      : kMost;
}

const nlohmann::json* below(const nlohmann::json& object, std::string_view name) {
  const nlohmann::json* at = &object;
  while (true) {
    const std::size_t dot = name.find('.');
    if (!at->is_object()) return nullptr;
    const auto found = at->find(std::string(name.substr(0, dot)));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
    if (dot == std::string_view::npos) return at;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

const Keys::Json* Keys::find(std::initializer_list<const char*> names) const {
  for (const Json* object : {&section_, &whole_, &defaults_})
    for (const char* name : names)
      if (const Json* at = below(*object, name)) return at;
  return nullptr;
}

std::optional<std::int64_t> Keys::as_count(const char* name, const Json& value) {
  const std::int64_t most = bound_of(name);
  // An integer above 2^63 is unsigned to the library.
  if (value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)) &&
      value.get<std::int64_t>() >= 0 && value.get<std::int64_t>() <= most)
    return value.get<std::int64_t>();
  fail(fmt::format("{}: {}: {} is no count between 0 and {}", file_, name, shown(value.dump()), most));
  return std::nullopt;
}

std::optional<std::int64_t> Keys::count(std::initializer_list<const char*> names) {
  for (const Json* object : {&section_, &whole_, &defaults_})
    for (const char* name : names)
      if (const Json* at = below(*object, name)) {
        // A list whose elements are all the same counts as one of them (Hunyuan's moe_topk).
        if (at->is_array() && !at->empty() &&
            std::all_of(at->begin(), at->end(), [&](const Json& e) { return e == at->front(); }))
          return as_count(name, at->front());
        return as_count(name, *at);
      }
  return std::nullopt;
}

std::int64_t Keys::need(std::initializer_list<const char*> names) {
  const auto value = count(names);
  if (!value) fail(fmt::format("{}: key {} is missing", file_, *names.begin()));
  if (value == 0) fail(fmt::format("{}: {}: 0 is too few", file_, *names.begin()));
  return std::max<std::int64_t>(1, value.value_or(1));
}

std::optional<std::int64_t> Keys::count_of_layer(std::initializer_list<const char*> names, std::int64_t layer) {
  const Json* at = find(names);
  if (at == nullptr) return std::nullopt;
  if (!at->is_array()) return as_count(*names.begin(), *at);
  if (static_cast<std::size_t>(layer) >= at->size()) {
    fail(fmt::format("{}: {} has {} elements, but there is a layer {}", file_, *names.begin(), at->size(), layer));
    return std::nullopt;
  }
  const Json& element = (*at)[static_cast<std::size_t>(layer)];
  if (element.is_null()) return std::nullopt;
  return as_count(*names.begin(), element);
}

std::string Keys::word_of_layer(const char* name, std::int64_t layer) const {
  const Json* at = find({name});
  if (at == nullptr || !at->is_array() || static_cast<std::size_t>(layer) >= at->size()) return "";
  const Json& element = (*at)[static_cast<std::size_t>(layer)];
  return element.is_string() ? element.get<std::string>() : "";
}

std::string Keys::word(std::initializer_list<const char*> names) const {
  const Json* at = find(names);
  return at != nullptr && at->is_string() ? at->get<std::string>() : "";
}

bool Keys::flag(const char* name, bool otherwise) const {
  const Json* at = find({name});
  return at != nullptr && at->is_boolean() ? at->get<bool>() : otherwise;
}

}  // namespace weft::models
