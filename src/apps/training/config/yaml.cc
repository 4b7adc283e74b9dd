#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "apps/training/config/settings.h"
#include "base/counted.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::training {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kMostValues = 100'000;

// Writes every scalar below its path; lists of scalars as "[a, b]", elements of other lists by their number.
void flatten(const YAML::Node& node, const std::string& path, int depth, Settings& settings) {
  if (depth > kDeepest || settings.all().size() > kMostValues) return;
  if (node.IsScalar()) {
    settings.set(path, node.Scalar());
  } else if (node.IsMap()) {
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      const YAML::Node& value = entry.second;
      if (!key.IsScalar()) continue;
      if (key.Scalar() == "<<") {  // YAML 1.1's merge
        flatten(value, path, depth + 1, settings);
        continue;
      }
      const std::string name = key_of(key.Scalar());
      flatten(value, path.empty() ? name : path + "." + name, depth + 1, settings);
    }
  } else if (node.IsSequence()) {
    std::string list;
    for (std::size_t i = 0; i < node.size(); ++i) {
      if (node[i].IsScalar())
        list += (list.empty() ? "" : ", ") + node[i].Scalar();
      else
        flatten(node[i], path + "." + std::to_string(i), depth + 1, settings);
    }
    if (!list.empty()) settings.set(path, "[" + list + "]");
  }
}

// OmegaConf's interpolations.
class Interpolation {
 public:
  explicit Interpolation(const Settings& settings) : settings_(settings) {}

  std::string resolved(const std::string& path, const std::string& value, int depth = 0) const {
    std::string out = value;
    for (int times = 0; times < kDeepest && depth < kDeepest; ++times) {
      const std::size_t from = out.rfind("${");  // the innermost of nested ones
      if (from == std::string::npos) break;
      const std::size_t to = out.find('}', from);
      if (to == std::string::npos) break;
      const auto inside = answer(path, out.substr(from + 2, to - from - 2), depth);
      if (!inside) return value;
      out.replace(from, to - from + 1, *inside);
    }
    return out;
  }

 private:
  std::optional<std::string> answer(const std::string& path, const std::string& inside, int depth) const {
    const std::size_t colon = inside.find(':');
    if (colon != std::string::npos) return called(inside.substr(0, colon), inside.substr(colon + 1));
    std::string wanted = key_of(inside);
    if (wanted.starts_with('.')) {  // relative to the section of `path`, one dot more for each level up
      std::string section = path;
      while (wanted.starts_with('.')) {
        wanted.erase(0, 1);
        const std::size_t dot = section.rfind('.');
        section.resize(dot == std::string::npos ? 0 : dot);
      }
      wanted = section.empty() ? wanted : section + "." + wanted;
    }
    for (const auto& [own, value] : settings_.all())
      if (own == wanted) return resolved(own, value, depth + 1);
    return std::nullopt;
  }
  // oc.env with its default; arithmetic as NeMo registers it.
  static std::optional<std::string> called(const std::string& name, const std::string& arguments) {
    const std::size_t comma = arguments.find(',');
    const auto stripped = [](std::string s) {
      while (!s.empty() && (s.front() == ' ' || s.front() == '\'' || s.front() == '"')) s.erase(0, 1);
      while (!s.empty() && (s.back() == ' ' || s.back() == '\'' || s.back() == '"')) s.pop_back();
      return s;
    };
    if (name == "oc.env" || name == "env")
      return comma == std::string::npos ? std::nullopt : std::optional(stripped(arguments.substr(comma + 1)));
    // Primus: a variable of the environment and its default.
    const auto capital = [](unsigned char letter) {
      return std::isupper(letter) != 0 || std::isdigit(letter) != 0 || letter == '_';
    };
    if (!name.empty() && std::ranges::all_of(name, capital)) return stripped(arguments);
    if (comma == std::string::npos) return std::nullopt;
    const auto a = parse_integer("", stripped(arguments.substr(0, comma)), -1'000'000'000, 1'000'000'000);
    const auto b = parse_integer("", stripped(arguments.substr(comma + 1)), -1'000'000'000, 1'000'000'000);
    if (!a || !b) return std::nullopt;
    if (name == "multiply" || name == "mul") return std::to_string(*a * *b);
    if (name == "add") return std::to_string(*a + *b);
    if (name == "subtract" || name == "sub") return std::to_string(*a - *b);
    if (*b == 0) return std::nullopt;
    if (name == "int_div" || name == "divide" || name == "floor_div") return std::to_string(*a / *b);
    if (name == "divide_ceil") return std::to_string((*a + *b - 1) / *b);
    return std::nullopt;
  }

  const Settings& settings_;
};

std::string joined(const std::string& package, const std::string& name) {
  return package.empty() ? name : name.empty() ? package : package + "." + name;
}

// Files that Hydra composes: a configuration, and what its list of defaults names.
class Composition {
 public:
  Composition(Settings& settings, std::vector<std::string>& notes) : settings_(settings), notes_(notes) {}

  // `package`: where the file's content belongs, unless its "# @package" says otherwise.
  Status add(const std::filesystem::path& file, std::string_view text, std::string package, int depth = 0) {
    if (text.starts_with("# @package ")) {
      package = text.substr(11, text.find_first_of(" \r\n", 11) - 11);
      if (package == "_global_") package.clear();
    }
    try {
      for (const YAML::Node& document : YAML::LoadAll(std::string(text)))
        WEFT_CHECK(add_document(file, document, package, depth));
    } catch (const YAML::Exception& e) {
      return bad_input("{}:{}:{}: {}", file.string(), e.mark.line + 1, e.mark.column + 1, e.msg);
    }
    return {};
  }

 private:
  Status add_document(const std::filesystem::path& file, const YAML::Node& document, const std::string& package,
                      int depth) {
    const YAML::Node defaults = document.IsMap() ? document["defaults"] : YAML::Node();
    // NeMo-RL's own form: the path of the file that this one changes.
    if (defaults && defaults.IsScalar() && defaults.Scalar().find(".y") != std::string::npos)
      WEFT_CHECK(include(file, defaults.Scalar(), "", package, depth));
    if (!defaults || !defaults.IsSequence()) {
      flatten(document, package, 0, settings_);
      return {};
    }
    const auto own = [&] {
      for (const auto& entry : document)
        if (entry.first.IsScalar() && entry.first.Scalar() != "defaults")
          flatten(entry.second, joined(package, key_of(entry.first.Scalar())), 1, settings_);
    };
    bool placed = false;
    for (const YAML::Node& one : defaults) {
      if (one.IsScalar() && one.Scalar() == "_self_") {
        own();
        placed = true;
      } else if (one.IsScalar()) {
        WEFT_CHECK(include(file, one.Scalar(), "", package, depth));
      } else if (one.IsMap()) {
        for (const auto& entry : one)
          for (const std::string& option : options_of(entry.second))
            WEFT_CHECK(include(file, option, entry.first.Scalar(), package, depth));
      }
    }
    if (!placed) own();
    return {};
  }

  static std::vector<std::string> options_of(const YAML::Node& value) {
    std::vector<std::string> options;
    if (value.IsScalar() && value.Scalar() != "null") options.push_back(value.Scalar());
    if (value.IsSequence())
      for (const YAML::Node& one : value)
        if (one.IsScalar()) options.push_back(one.Scalar());
    return options;
  }

  // "optional override /group@package" and an option, or a file without a group.
  Status include(const std::filesystem::path& file, std::string option, std::string group, std::string package,
                 int depth) {
    bool optional = false;
    for (const std::string_view word : {"optional ", "override "})
      if (group.starts_with(word)) {
        optional = optional || word == "optional ";
        group.erase(0, word.size());
      }
    std::string& named = group.empty() ? option : group;
    std::optional<std::string> at;
    if (const auto sign = named.find('@'); sign != std::string::npos) {
      at = named.substr(sign + 1);
      named.resize(sign);
    }
    const bool absolute = named.starts_with('/');
    if (absolute) named.erase(0, 1);
    std::string own = group;
    std::ranges::replace(own, '/', '.');
    if (absolute) package.clear();
    package = !at                 ? joined(package, key_of(own))
              : *at == "_global_" ? ""
              : *at == "_here_"   ? package
                                  : joined(package, *at);
    if (option.ends_with(".yaml")) option.resize(option.size() - 5);
    std::filesystem::path path;
    std::error_code none;
    // Groups lie beside the file, those of "/" below a folder above it.
    for (std::filesystem::path folder = file.parent_path();; folder = folder.parent_path()) {
      path = folder / group / (option + ".yaml");
      if (std::filesystem::exists(path, none) || !absolute || folder == folder.parent_path()) break;
    }
    if (depth >= kMostFiles || ++files_ > kMostFiles) {
      notes_.push_back(fmt::format("{} under defaults: more than {}", path.string(), counted(kMostFiles, "file")));
      return {};
    }
    const auto text = read_text_file(path);
    if (!text) {
      if (!optional) notes_.push_back(fmt::format("{} is named under defaults and is not here", path.string()));
      return {};
    }
    return add(path, *text, package, depth + 1);
  }

  static constexpr int kMostFiles = 64;
  Settings& settings_;
  std::vector<std::string>& notes_;
  int files_ = 0;
};

}  // namespace

Result<Settings> yaml_settings(std::string_view file, std::string_view text, std::vector<std::string>& notes) {
  Settings raw;
  WEFT_CHECK(Composition(raw, notes).add(std::filesystem::path(file), text, ""));
  Settings settings;
  const Interpolation interpolation(raw);
  for (const auto& [path, value] : raw.all()) settings.set(path, interpolation.resolved(path, value));
  return settings;
}

}  // namespace weft::training
