#include "apps/training/config/formats.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/training/files.h"

namespace weft::training {
namespace {

using nlohmann::json;

const json& formats() {
  static const json all = [] {
    for (const auto& file : embedded::training_files())
      if (file.path == "data/training/config_formats.json") return json::parse(file.text)["formats"];
    return json::array();
  }();
  return all;
}

const std::string* exactly(const Settings& settings, std::string_view path) {
  for (const auto& [own, value] : settings.all())
    if (own == path) return &value;
  return nullptr;
}

bool on(const std::string* value) {
  const std::string word = value == nullptr ? "false" : key_of(*value);
  return word != "false" && word != "0" && word != "none" && word != "no" && word != "off";
}

bool matches(const std::string& pattern, const std::string& path) {
  return fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
}

bool is_of(const json& format, std::string_view text, const Settings& settings) {
  if (format.contains("python") && text.find(format["python"].get_ref<const std::string&>()) == std::string_view::npos)
    return false;
  const bool python = format.contains("python");
  return std::ranges::all_of(format["marks"], [&](const json& mark) {
    const std::string& path = mark.get_ref<const std::string&>();
    return exactly(settings, path) != nullptr || (python && settings.has(path));
  });
}

std::optional<std::int64_t> number(const Settings& settings, const std::string& path) {
  const std::string* value = exactly(settings, path);
  if (value == nullptr) return std::nullopt;
  char* end = nullptr;
  const auto parsed = std::strtoll(value->c_str(), &end, 10);
  return end == value->c_str() || *end != '\0' ? std::nullopt : std::optional<std::int64_t>(parsed);
}

// Sections of other work, and of the way of training that is not taken.
void leave_out(const json& format, Settings& settings, std::vector<std::string>& assumed) {
  std::vector<std::string> others;
  const json leave = format.value("leave", json::object());
  for (const auto& [path, value] : std::vector(settings.all()))
    for (const auto& [pattern, what] : leave.items())
      if (matches(pattern, path)) {
        settings.set(path, "");
        const std::string& name = what.get_ref<const std::string&>();
        if (!name.empty() && std::ranges::find(others, name) == others.end()) others.push_back(name);
      }
  for (const json& choice : format.value("either", json::array()))
    if (on(exactly(settings, choice[0].get<std::string>())))
      for (const auto& [path, value] : std::vector(settings.all()))
        if (path.starts_with(choice[2].get_ref<const std::string&>())) settings.set(path, "");
  if (!others.empty())
    assumed.push_back(fmt::format("the training alone: {} of the same job are left out", fmt::join(others, ", ")));
}

void compute(const json& format, Settings& settings) {
  for (const bool product : {false, true}) {
    const json all = format.value(product ? "product" : "sum", json::object());
    for (const auto& [ours, parts] : all.items()) {
      std::optional<std::int64_t> value;
      for (const json& part : parts)
        if (const auto own = number(settings, part.get<std::string>()); own && settings.has(part.get<std::string>()))
          value = !value ? *own : product ? *value * *own : *value + *own;
      if (value && exactly(settings, ours) == nullptr) settings.set(ours, std::to_string(*value));
    }
  }
}

void rename(const json& format, Settings& settings) {
  const bool python = format.contains("python");
  const json renamed = format.value("rename", json::object());
  for (const auto& [theirs, ours] : renamed.items()) {
    const std::string* own = exactly(settings, theirs);
    const std::optional<std::string> value = own != nullptr ? std::optional(*own)
                                             : python       ? settings.find(theirs)
                                                            : std::nullopt;
    if (!value) continue;
    settings.set(theirs, "");
    if (exactly(settings, ours.get_ref<const std::string&>()) == nullptr) settings.set(ours.get<std::string>(), *value);
  }
}

// Llama's rule for the width of an MLP that no file names.
void llama_ffn(const json& paths, Settings& settings) {
  const auto hidden = number(settings, "hidden_size");
  if (!hidden || exactly(settings, "ffn_hidden_size") != nullptr) return;
  const std::string* multiplier = exactly(settings, paths[0].get<std::string>());
  const double factor = multiplier == nullptr ? 1 : std::strtod(multiplier->c_str(), nullptr);
  const auto unit = std::max<std::int64_t>(1, number(settings, paths[1].get<std::string>()).value_or(1));
  const auto width = static_cast<std::int64_t>(static_cast<double>(8 * *hidden / 3) * factor);
  settings.set("ffn_hidden_size", std::to_string((width + unit - 1) / unit * unit));
  for (const json& path : paths) settings.set(path.get<std::string>(), "");
}

// "fsdp:d4p1t2", "megatron:(attn:d1p4t2c2|ffn:d1p4t1e8)": letters and counts; attention's stand before the experts'.
void allocate(const std::string& path, Settings& settings) {
  const std::string* value = exactly(settings, path);
  if (value == nullptr) return;
  const std::string text = *value;
  constexpr std::pair<char, const char*> kLetters[] = {{'p', "pipeline_model_parallel_size"},
                                                       {'t', "tensor_model_parallel_size"},
                                                       {'c', "context_parallel_size"},
                                                       {'e', "expert_model_parallel_size"}};
  for (std::size_t at = 0; at + 1 < text.size(); ++at)
    for (const auto& [letter, ours] : kLetters)
      if (text[at] == letter && std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0 &&
          (at == 0 || std::isalpha(static_cast<unsigned char>(text[at - 1])) == 0) &&
          exactly(settings, ours) == nullptr)
        settings.set(ours, std::to_string(std::strtol(text.c_str() + at + 1, nullptr, 10)));
  if (text.find("megatron") != std::string::npos) settings.set("zero_stage", "1");
  settings.set(path, "");
}

void adjust(const json& format, Settings& settings) {
  if (format.contains("allocation")) allocate(format["allocation"].get<std::string>(), settings);
  for (const json& path : format.value("halves", json::array()))
    if (const auto value = number(settings, path.get<std::string>()))
      settings.set(path.get<std::string>(), std::to_string(*value / 2));
  // GPT-NeoX: the width of both halves and of the way back, of which a gated MLP has a third each.
  if (format.value("thirds", false) && exactly(settings, "hidden_size") != nullptr) {
    const std::string* activation = exactly(settings, "activation");
    if (settings.on("swiglu") || (activation != nullptr && activation->ends_with("glu"))) {
      const auto hidden = number(settings, "hidden_size").value_or(0);
      const auto width = number(settings, "ffn_hidden_size").value_or(4 * hidden) * 2 / 3 / 2;
      const auto unit = std::max<std::int64_t>(1, number(settings, "mlp_multiple_of").value_or(1));
      settings.set("ffn_hidden_size", std::to_string((width + unit - 1) / unit * unit));
    }
  }
  const json tokens = format.value("tokens", json::object());
  for (const auto& [path, ours] : tokens.items())
    if (const auto value = number(settings, path), length = number(settings, "seq_length");
        value && length && *length > 0) {
      settings.set(path, "");
      settings.set(
          ours.get<std::string>(),
          std::to_string(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, *value / *length)))));
    }
  if (const json ffn = format.value("llama_ffn", json::array()); ffn.size() == 2) llama_ffn(ffn, settings);
  const json per = format.value("per", json::object());
  for (const auto& [path, length] : per.items())
    if (const auto value = number(settings, path), tokens = number(settings, length.get<std::string>());
        value && tokens && *tokens > 0 && *value >= *tokens)
      settings.set(path, std::to_string(*value / *tokens));
  for (const json& path : format.value("zero_is_one", json::array()))
    if (number(settings, path.get<std::string>()) == 0) settings.set(path.get<std::string>(), "1");
  // "swiglu" where the framework's own word for the MLP says so.
  const json words = format.value("words", json::object());
  for (const auto& [path, names] : words.items())
    if (const std::string* value = exactly(settings, path); value != nullptr && names.contains(*value))
      settings.set(names[*value].get<std::string>(), "true");
  const json where = format.value("set_where", json::object());
  for (const auto& [pattern, values] : where.items())
    for (const auto& [path, value] : std::vector(settings.all()))
      if (matches(pattern, path) && on(&value))
        for (const auto& [ours, text] : values.items())
          if (exactly(settings, ours) == nullptr) settings.set(ours, text.get<std::string>());
  const json constants = format.value("set", json::object());
  for (const auto& [ours, value] : constants.items())
    if (exactly(settings, ours) == nullptr && !(ours == "zero_stage" && settings.has("zero_optimization.stage")))
      settings.set(ours, value.get<std::string>());
}

}  // namespace

std::string translate(std::string_view text, Settings& settings, std::vector<std::string>& assumed) {
  for (const json& format : formats()) {
    if (!is_of(format, text, settings)) continue;
    compute(format, settings);
    rename(format, settings);
    adjust(format, settings);
    leave_out(format, settings, assumed);
    return format["name"].get<std::string>();
  }
  return "";
}

}  // namespace weft::training
