#include <toml++/toml.h>

#include <sstream>

#include "apps/training/config/settings.h"

namespace weft::training {
namespace {

void flatten(const toml::table& table, const std::string& prefix, Settings& settings) {
  for (const auto& [key, value] : table) {
    const std::string path = prefix + key_of(key.str());
    if (const toml::table* inner = value.as_table()) {
      flatten(*inner, path + ".", settings);
    } else if (const auto* text = value.as_string()) {
      settings.set(path, text->get());
    } else {
      std::ostringstream out;
      out << toml::default_formatter(value);
      settings.set(path, out.str());
    }
  }
}

}  // namespace

Result<Settings> toml_settings(std::string_view file, std::string_view text) {
  Settings settings;
  try {
    flatten(toml::parse(text), "", settings);
  } catch (const toml::parse_error& e) {
    return bad_input("{}:{}:{}: {}", file, e.source().begin.line, e.source().begin.column, e.description());
  }
  return settings;
}

}  // namespace weft::training
