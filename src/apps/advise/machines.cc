#include "apps/advise/machines.h"

#include <algorithm>
#include <map>

#include "apps/training/traffic.h"
#include "base/counted.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::advise {
namespace {

std::string with_option(const std::string& machine, const std::string& option) {
  return fmt::format("{}{}{}", machine, machine.find(':') == std::string::npos ? ":" : ",", option);
}

bool says(const std::string& machine, const std::string& option) {
  return machine.find(":" + option) != std::string::npos || machine.find("," + option) != std::string::npos;
}

// A name like "a100" may be of machines whose cards differ ("dgx-a100", "dgx-a100-80gb"): what is there already is
// asked back, as a wrong guess would be a wrong answer.
Status check_unambiguous(const std::string& name) {
  const std::string word = name.substr(0, name.find(':'));
  const auto presets = topology::presets();
  if (std::ranges::find(presets, word, &topology::PresetInfo::name) != presets.end()) return {};
  std::map<std::string, std::string> machines;  // by their cards
  for (const topology::PresetInfo& preset : presets) {
    if (("-" + preset.name + "-").find("-" + word + "-") == std::string::npos) continue;
    WEFT_TRY(const Opened machine, open(preset.name));
    machines.emplace(machine.card, preset.name);
  }
  if (machines.size() < 2) return {};
  std::vector<std::string> each;
  for (const auto& [card, machine] : machines) each.push_back(fmt::format("{} ({})", machine, card));
  return bad_input("--have {}: which of {}?", name, fmt::join(each, ", "));
}

}  // namespace

std::string Candidate::sized_to(std::int64_t nodes) const {
  return sized || nodes == 1 ? name : with_option(name, fmt::format("nodes={}", nodes));
}

Result<std::vector<Candidate>> candidates(const Words& words, const Prices& prices) {
  std::vector<Candidate> all;
  if (words.prices.size() > 1 && words.prices.size() != words.on.size())
    return bad_input("--price: {} for {}; one for all, or one for each of --on", words.prices.size(),
                     counted(words.on.size(), "machine"));
  for (std::size_t i = 0; i < words.on.size(); ++i) {
    const double price = words.prices.empty() ? -1 : words.prices[words.prices.size() == 1 ? 0 : i];
    all.push_back({.name = words.on[i], .sized = says(words.on[i], "nodes="), .price = price});
  }
  for (const std::string& name : words.have) WEFT_CHECK(check_unambiguous(name));
  for (const std::string& name : words.have) all.push_back({.name = name, .owned = true, .sized = true, .price = 0});
  if (all.empty())
    for (const std::string& name : prices.machines())
      all.push_back({.name = name, .price = words.prices.empty() ? -1 : words.prices[0]});
  if (all.empty()) return bad_input("no machine: --on MACHINE, or a table of prices that names some");
  return all;
}

Result<Opened> open(const std::string& name) {
  WEFT_TRY(auto topology, topology::load_machine(name));
  WEFT_TRY(auto view, cost::shipped_view(std::move(topology)));
  Opened machine{.name = name, .view = std::make_shared<const cost::MachineView>(std::move(view))};
  if (machine.view->endpoints() == 0) return bad_input("--on {}: it has no GPUs", name);
  machine.card = machine.view->topology().device(machine.view->device(0)).model;
  machine.gpus = machine.view->endpoints();
  machine.per_node = std::max<Rank>(1, training::Traffic(*machine.view).gpus_per_node());
  machine.nodes = (machine.gpus + machine.per_node - 1) / machine.per_node;
  return machine;
}

Status add_price(const Candidate& candidate, const Prices& prices, report::AdviceRow& row) {
  const CardPrice* known = prices.find(row.card);
  row.owned = candidate.owned;
  if (known != nullptr && known->watts > 0) {
    row.kilowatts = known->watts * static_cast<double>(row.gpus) / 1000;
    row.power_source = fmt::format("{}: {:.0f} W, {}", row.card, known->watts, known->power_source);
  }
  if (candidate.owned) return {};
  if (candidate.price >= 0) {
    row.per_gpu_hour = candidate.price;
  } else if (known != nullptr) {
    row.per_gpu_hour = known->per_gpu_hour;
    row.price_source = fmt::format("{}: {:.4g} {} a GPU-hour, {}", row.card, known->per_gpu_hour, prices.currency,
                                   known->price_source);
  } else {
    return bad_input("no price: give --price (none is known of {})", row.card);
  }
  row.hourly = row.per_gpu_hour * static_cast<double>(row.gpus);
  return {};
}

std::string with_price(const std::string& command, const report::AdviceRow& row) {
  if (command.empty() || row.per_gpu_hour <= 0) return command;
  return fmt::format("{} --price {:.6g}", command, row.per_gpu_hour);
}

std::vector<Fabric> cheaper_fabrics(const std::string& machine) {
  std::vector<Fabric> all;
  const auto add = [&](const char* option, const char* words) {
    const std::string_view whole = option;
    if (!says(machine, std::string(whole.substr(0, whole.find('=') + 1))))
      all.push_back({fmt::format("{} ({})", words, option), with_option(machine, option)});
  };
  add("oversub=2", "half the uplinks");
  add("net=roce-200", "200 Gb/s of RoCE per NIC");
  add("net=eth-100", "100 GbE without RDMA");
  return all;
}

}  // namespace weft::advise
