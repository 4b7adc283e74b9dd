#include "apps/training/config/settings.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace weft::training {
namespace {

using nlohmann::json;

bool says_nothing(std::string_view value) {
  for (const char* word : {"", "null", "None", "~", "???"})
    if (value == word) return true;
  return false;
}

void flatten(const json& object, const std::string& prefix, Settings& settings) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key_of(key);
    if (value.is_object())
      flatten(value, path + ".", settings);
    else
      settings.set(path, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

}  // namespace

std::string key_of(std::string_view key) {
  while (key.starts_with('-') || key.starts_with('+')) key.remove_prefix(1);
  std::string out(key);
  std::ranges::replace(out, '-', '_');
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

void Settings::set(std::string_view path, std::string value) {
  const auto same = [&](const auto& one) { return one.first == path; };
  const auto at = std::ranges::find_if(values_, same);
  if (says_nothing(value)) {
    if (at != values_.end()) values_.erase(at);
  } else if (at != values_.end()) {
    at->second = std::move(value);
  } else {
    values_.emplace_back(path, std::move(value));
  }
}

std::optional<std::string> Settings::find(std::string_view name) const {
  const std::pair<std::string, std::string>* best = nullptr;
  std::ptrdiff_t depth = 0;
  for (const auto& one : values_) {
    const std::string& path = one.first;
    if (path != name &&
        !(path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.'))
      continue;
    const std::ptrdiff_t own = std::ranges::count(path, '.');
    if (best == nullptr || own < depth) best = &one, depth = own;
  }
  if (best == nullptr) return std::nullopt;
  read_.insert(best->first);
  return best->second;
}

bool Settings::on(std::string_view name) const {
  const auto value = find(name);
  if (!value) return false;
  const std::string word = key_of(*value);
  for (const char* off : {"false", "0", "none", "off", "no", "null"})
    if (word == off) return false;
  return true;
}

Result<std::optional<std::int64_t>> Settings::count(std::string_view file, std::string_view name) const {
  const auto value = find(name);
  if (!value || *value == "auto") return std::nullopt;
  if (value->find('$') != std::string::npos) return leave(name, *value), std::nullopt;
  std::string digits = *value;
  std::erase(digits, '_');  // Python and YAML write 1_000_000
  const auto number = parse_integer(std::string(name), digits, -1, std::int64_t{1} << 40);
  if (!number) return bad_input("{}: {}: {} is no count", file, name, shown(*value));
  return *number;
}

void Settings::leave(std::string_view name, const std::string& value) const {
  if (value == "$") return;
  int line = 0;
  for (const auto& [text, own] : lines_)
    if (value.find(text) != std::string::npos && (line == 0 || own < line)) line = own;
  std::string note = fmt::format("{}{}: {} is known to the running script only",
                                 line > 0 ? fmt::format("line {}: ", line) : "", name, value);
  if (std::ranges::find(undecided_, note) == undecided_.end()) undecided_.push_back(std::move(note));
}

void Settings::add(const Settings& others) {
  const std::vector<std::pair<std::string, std::string>> before = values_;
  for (const auto& [path, value] : others.all())
    if (value != "auto" && std::ranges::none_of(before, [&](const auto& one) { return one.first == path; }))
      set(path, value);
}

std::vector<std::string> Settings::unread() const {
  std::vector<std::string> paths;
  for (const auto& [path, value] : values_)
    if (!read_.contains(path)) paths.push_back(path);
  return paths;
}

Result<Settings> json_settings(std::string_view file, std::string_view text) {
  WEFT_TRY(const json object, parse_json(file, text, true));
  if (!object.is_object()) return bad_input("{}: no JSON object", file);
  Settings settings;
  flatten(object, "", settings);
  return settings;
}

}  // namespace weft::training
