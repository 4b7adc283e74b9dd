#include "apps/training/config/companions.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/text_file.h"

namespace weft::training {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

bool is_file(const std::string& value) {
  for (const char* end : {".json", ".yaml", ".yml", ".toml"})
    if (value.ends_with(end)) return true;
  return false;
}

bool is_json(const std::string& value) { return value.starts_with('{') && value.ends_with('}'); }

Result<Settings> settings_of(const std::string& file, std::string_view text, std::vector<std::string>& assumed) {
  if (file.ends_with(".toml")) return toml_settings(file, text);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' ? json_settings(file, text)
                                                          : yaml_settings(file, text, assumed);
}

}  // namespace

Beside::Beside(const std::string& file, std::map<std::string, std::string> written)
    : folder_(std::filesystem::path(file).parent_path().string()), written_(std::move(written)) {}

std::optional<std::string> Beside::text(const std::string& name) const {
  constexpr int kMostAbove = 4;
  if (const auto own = written_.find(name); own != written_.end()) return own->second;
  const auto read = [](const std::filesystem::path& path) -> std::optional<std::string> {
    std::error_code none;
    if (!std::filesystem::is_regular_file(path, none)) return std::nullopt;
    auto text = read_text_file(path, kMostBytes);
    return text ? std::optional(std::move(*text)) : std::nullopt;
  };
  std::error_code none;
  std::filesystem::path folder = std::filesystem::absolute(folder_.empty() ? "." : folder_, none);
  for (int above = 0; above <= kMostAbove; ++above) {
    if (auto found = read(folder / name)) return found;
    if (!folder.has_parent_path() || folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  // Where a command or a variable names the folder, only the path's end is sure.
  for (std::string rest = name; rest.find('/') != std::string::npos;) {
    rest = rest.substr(rest.find('/') + 1);
    if (auto found = read(std::filesystem::path(folder_) / rest)) return found;
  }
  return std::nullopt;
}

Result<bool> read_companion(const Beside& beside, const std::string& name, Settings& settings,
                            std::vector<std::string>& assumed) {
  const auto text = beside.text(name);
  if (!text) return false;
  WEFT_TRY(const Settings inner, settings_of(name, *text, assumed));
  settings.add(inner);
  return true;
}

Status read_companions(const Beside& beside, Settings& settings, std::vector<std::string>& assumed) {
  // accelerate's own file first: it may name DeepSpeed's.
  if (const auto name = settings.find("launcher.config_file")) {
    WEFT_TRY(const bool there, read_companion(beside, *name, settings, assumed));
    if (!there) assumed.push_back(fmt::format("accelerate's file {} is not here", *name));
  }
  for (const char* key : {"deepspeed", "deepspeed_config", "deepspeed_config_file", "dist_config.config_file"})
    if (const auto value = settings.find(key); value && (is_json(*value) || is_file(*value))) {
      Settings inner;
      if (is_json(*value)) {
        WEFT_TRY(inner, json_settings(key, *value));
      } else {
        WEFT_TRY(const bool there, read_companion(beside, *value, inner, assumed));
        if (!there) continue;  // its name may say the stage: read_replicas
      }
      if (!inner.has("zero_optimization.stage")) inner.set("zero_optimization.stage", "0");  // DeepSpeed's default
      settings.add(inner);
    }
  if (const auto value = settings.find("fsdp_config"); value && (is_json(*value) || is_file(*value))) {
    const auto text = is_json(*value) ? value : beside.text(*value);
    if (!text) {
      assumed.push_back(fmt::format("the file of fsdp_config {} is not here", *value));
      return {};
    }
    WEFT_TRY(const Settings inner, json_settings(is_json(*value) ? "fsdp_config" : *value, *text));
    Settings below;
    for (const auto& [path, own] : inner.all()) below.set("fsdp_config." + path, own);
    settings.add(below);
  }
  return {};
}

}  // namespace weft::training
