#include <yaml-cpp/yaml.h>

#include <cstdlib>

#include "apps/training/config/settings.h"
#include "base/text.h"

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

}  // namespace

Result<Settings> yaml_settings(std::string_view file, std::string_view text) {
  Settings raw;
  try {
    for (const YAML::Node& document : YAML::LoadAll(std::string(text))) flatten(document, "", 0, raw);
  } catch (const YAML::Exception& e) {
    return bad_input("{}:{}: {}", file, e.mark.line + 1, e.msg);
  }
  Settings settings;
  const Interpolation interpolation(raw);
  for (const auto& [path, value] : raw.all()) settings.set(path, interpolation.resolved(path, value));
  return settings;
}

}  // namespace weft::training
