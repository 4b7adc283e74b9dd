#include "apps/cli/bench_nccl_variables.h"

#include <map>

#include "base/nccl_names.h"
#include "base/text.h"

namespace weft::cli {
namespace {

bool begins_with_one_of(const std::string& text, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return text.starts_with(name); });
}

bool has_option(const std::string& machine, std::string_view key) {
  return machine.find(fmt::format(":{}=", key)) != std::string::npos ||
         machine.find(fmt::format(",{}=", key)) != std::string::npos;
}

// "dgx-h100" becomes "dgx-h100:p2p=loc". Returns whether it did.
bool add_option(BenchSpec& spec, std::string_view key, const std::string& value) {
  if (value.empty() || has_option(spec.on, key)) return false;
  spec.on += fmt::format("{}{}={}", spec.on.find('=') == std::string::npos ? ":" : ",", key, value);
  return true;
}

// What NCCL would call the NIC: as the machine's file does, else mlx5_N by its number in the node.
std::string verbs_name(const topology::Device& nic, int number) {
  for (const char* key : {"net0.name", "verbs"})
    if (const std::string_view name = nic.facts.get(key); !name.empty()) return std::string(name);
  return nic.model.find('_') != std::string::npos ? nic.model : fmt::format("mlx5_{}", number);
}

}  // namespace

Status take_nccl_variables(BenchSpec& spec) {
  if (spec.on.empty() || spec.on == "this") return {};
  WEFT_TRY(env::Settings settings, env::read());
  const std::string before = spec.on;
  bool p2p = add_option(spec, "p2p", settings.nccl_p2p), gdr = add_option(spec, "gdr", settings.nccl_gdr);
  if ((p2p || gdr) && !load_machine(spec.on, spec.calibration)) {  // a cluster's file takes no options
    spec.on = before;
    p2p = gdr = false;
  }
  const auto holds = [&](const std::string& sentence) {
    if (begins_with_one_of(sentence, {"NCCL_IB_HCA"})) return settings.nccl_nics.limits();
    if (begins_with_one_of(sentence, {"NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"})) return p2p;
    if (begins_with_one_of(sentence, {"NCCL_NET_GDR_LEVEL"})) return gdr;
    if (sentence.find(" has no effect: ") != std::string::npos) return false;
    if (begins_with_one_of(sentence, {"NCCL_ALGO", "NCCL_NVLS_ENABLE"})) return spec.algorithm.empty();
    if (begins_with_one_of(sentence, {"NCCL_PROTO"})) return spec.protocol.empty();
    if (begins_with_one_of(sentence, {"NCCL_MIN_N", "NCCL_MAX_N"})) return spec.channels == 0;
    return begins_with_one_of(sentence, {"NCCL_BUFFSIZE"});
  };
  for (const auto* list : {&settings.nccl_understood, &settings.nccl_ignored})
    for (const std::string& sentence : *list)
      if (holds(sentence))
        fmt::print(stderr, "weft: {} holds on this machine\n", shown(sentence.substr(0, sentence.find(' '))));
      else
        fmt::print(
            stderr, "weft: {}{}\n", shown(sentence),
            sentence.find(" has no effect: ") != std::string::npos ? "" : "; without effect on a simulated machine");
  spec.nccl = std::move(settings);
  return {};
}

void leave_out_nics(BenchSpec& spec, const Machine& machine) {
  if (!machine.simulated || !spec.nccl.nccl_nics.limits()) return;
  const topology::Topology& t = machine.view->topology();
  std::map<int, int> of_node;  // NICs that were seen
  std::vector<std::string> out;
  std::size_t all = 0;
  for (const topology::DeviceId id : t.devices_of(topology::DeviceKind::kNic)) {
    const topology::Device& nic = t.device(id);
    const int number = of_node[nic.node]++;
    ++all;
    if (!env::allows_nic(spec.nccl.nccl_nics, verbs_name(nic, number)))
      out.push_back(fmt::format("nic:{}/{}=down", nic.node, nic.index));
  }
  if (out.size() == all) {
    if (all > 0)
      fmt::print(stderr, "weft: NCCL_IB_HCA allows none of this machine's NICs, {}; all are used\n",
                 t.name_of(t.devices_of(topology::DeviceKind::kNic).front()));
    return;
  }
  spec.faults.insert(spec.faults.end(), out.begin(), out.end());
}

}  // namespace weft::cli
