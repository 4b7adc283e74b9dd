#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/models/files.h"
#include "base/models/model.h"
#include "base/nearest_words.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::models {
namespace {

constexpr std::string_view kFolder = "data/models/catalog/";

std::string_view name_of(std::string_view path) {
  return path.starts_with(kFolder) ? path.substr(kFolder.size(), path.size() - kFolder.size() - 5) : std::string_view();
}

// "meta-llama/Llama-3.1-8B-Instruct-FP8" and "llama3.1-8b" are both "llama318b".
std::string plain(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string out;
  std::string word;
  const auto flush = [&] {
    static constexpr std::string_view kIgnored[] = {
        "instruct", "base",    "chat",        "it",         "hf",      "fp8",      "nvfp4", "fp4",    "mxfp4",
        "bf16",     "int4",    "awq",         "gptq",       "meta",    "thinking", "pt",    "v0",     "2507",
        "2508",     "0324",    "0528",        "nvidia",     "dynamic", "text",     "a",     "4k",     "8k",
        "128k",     "sft",     "dpo",         "rm",         "lora",    "qlora",    "bnb",   "4bit",   "8bit",
        "nf4",      "unsloth", "checkpoints", "linearized", "1124",    "0325",     "full",  "static", "pertensor",
        "w8a8",     "w4a16",   "quantized",   "gguf",       "mlx"};
    if (std::ranges::find(kIgnored, word) == std::end(kIgnored)) out += word;
    word.clear();
  };
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      flush();
  }
  flush();
  return out;
}

// The model whose shape a fine-tune has; empty: not known.
std::string alias_of(std::string_view name) {
  static const nlohmann::json all = [] {
    for (const auto& file : embedded::model_files())
      if (file.path == "data/models/aliases.json") return nlohmann::json::parse(file.text)["aliases"];
    return nlohmann::json::array();
  }();
  std::string lower(name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& alias : all)
    if (fnmatch(alias[0].get_ref<const std::string&>().c_str(), lower.c_str(), 0) == 0) return alias[1];
  return "";
}

}  // namespace

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const auto& file : embedded::model_files())
    if (const auto name = name_of(file.path); !name.empty()) names.emplace_back(name);
  std::ranges::sort(names);
  return names;
}

std::string catalog_name(std::string_view name) {
  const std::vector<std::string> names = catalog_names();
  if (std::ranges::find(names, name) != names.end()) return std::string(name);
  const std::string wanted = plain(name);
  if (wanted.empty()) return "";
  const auto same = [&](const std::string& n) { return plain(n) == wanted; };
  const auto at = std::ranges::find_if(names, same);
  return at == names.end() ? alias_of(name) : *at;
}

std::vector<std::string> nearest_names(std::string_view name) {
  constexpr std::size_t kMost = 3;
  const std::string wanted = plain(name);
  std::vector<std::string> words;
  for (const std::string& other : catalog_names()) words.push_back(plain(other));
  std::vector<std::string> found;
  for (const std::string& word : nearest_words(wanted, words, kMost))
    if (std::string known = catalog_name(word); std::ranges::find(found, known) == found.end())
      found.push_back(std::move(known));
  return found;
}

namespace {

tl::unexpected<Error> unknown(std::string_view name, std::string_view what) {
  const auto nearest = nearest_names(name);
  return bad_input("model {}: {} {} of the catalogue{}", shown(name), what, catalog_names().size(),
                   nearest.empty() ? "" : fmt::format("; nearest: {}", fmt::join(nearest, ", ")));
}

const embedded::File* file_of(std::string_view name) {
  const std::string known = catalog_name(name);
  for (const auto& file : embedded::model_files())
    if (!known.empty() && name_of(file.path) == known) return &file;
  return nullptr;
}

}  // namespace

Result<Model> load(std::string_view name) {
  if (const auto* file = file_of(name)) return parse_config(file->path, file->text);
  return unknown(name, "none of the");
}

Result<Config> config_of(const std::string& model) {
  std::filesystem::path path = model;
  if (file_exists(path / "config.json")) path /= "config.json";
  if (file_exists(path)) {
    WEFT_TRY(std::string text, read_text_file(path));
    return Config{path.string(), std::move(text)};
  }
  if (const auto* file = file_of(model)) return Config{std::string(file->path), std::string(file->text)};
  return unknown(model, "neither a config.json nor one of the");
}

}  // namespace weft::models
