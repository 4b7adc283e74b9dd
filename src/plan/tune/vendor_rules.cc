#include "plan/tune/vendor_rules.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> vendor_rule_files();
}

namespace weft::tune {
namespace {

using nlohmann::json;

bool holds(const json& rule, const std::string& model, Rank nodes, const schedule::Task& task) {
  if (std::ranges::find(rule.at("accelerators"), json(model)) == rule.at("accelerators").end()) return false;
  const std::string where = rule.at("nodes");
  if (where != "any" && (where == "one") != (nodes == 1)) return false;
  if (rule.contains("collective") && rule.at("collective") != schedule::name(task.collective)) return false;
  if (rule.contains("divides") && task.ranks % rule.at("divides").get<Rank>() != 0) return false;
  const Bytes bytes = task.elements * task.element_bytes;
  constexpr Rank kMostNodes = 63;
  if (rule.contains("bytes") && bytes > rule.at("bytes").get<Bytes>()) return false;
  if (rule.contains("bytes_per_node") && (nodes > kMostNodes || bytes > nodes * rule.at("bytes_per_node").get<Bytes>()))
    return false;
  return !rule.contains("part") || bytes / task.ranks <= rule.at("part").get<Bytes>();
}

std::string tuner_of(const json& rule) {
  std::string name = rule.at("library");
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

const json& table() {
  static const json loaded =
      json::parse(embedded::vendor_rule_files()[0].text);  // vendor_rules_test.cc reads all of it
  return loaded;
}

}  // namespace

bool has_vendor_rules(std::string_view library) {
  return std::ranges::any_of(table().at("rules"), [&](const json& rule) { return tuner_of(rule) == library; });
}

std::optional<VendorRule> vendor_rule(const cost::MachineView& machine, const schedule::Task& task) {
  const std::string& model = machine.topology().device(machine.device(0)).model;
  const Rank nodes = machine.nodes(task.ranks);
  for (const json& rule : table().at("rules"))
    if (holds(rule, model, nodes, task))
      return VendorRule{.library = rule.at("library"),
                        .choice = rule.at("choice"),
                        .source = table().at("sources").at(rule.at("source").get<std::string>()).at("title"),
                        .tuner = tuner_of(rule),
                        .algorithm = rule.at("algorithm"),
                        .protocol = rule.at("protocol")};
  return std::nullopt;
}

}  // namespace weft::tune
