#include "apps/cli/bench_nccl_variables.h"

#include <cmath>
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

// The value of KEY= in the machine's name; empty: not there.
std::string option_of(const std::string& machine, std::string_view key) {
  for (const char before : {':', ','}) {
    const std::string word = fmt::format("{}{}=", before, key);
    const std::size_t at = machine.find(word);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + word.size();
    return machine.substr(begin, machine.find(',', begin) - begin);
  }
  return {};
}

// Gb/s of the ports that NCCL's own verbs transport would use; 0: plugins (EFA, Slingshot, Google's) or sockets carry
// this machine's messages, which the variable leaves alone, or it has one node.
std::int64_t verbs_rate(const Machine& machine) {
  const topology::Topology& t = machine.view->topology();
  if (t.nodes() < 2) return 0;
  for (const topology::DeviceId id : t.devices_of(topology::DeviceKind::kNic)) {
    const std::string& model = t.device(id).model;
    if (!begins_with_one_of(model, {"ConnectX", "BlueField", "Thor", "Pollara"})) return 0;
    for (const topology::LinkId link : t.links_of(id))
      if (t.link(link).kind == topology::LinkKind::kNetwork)
        return std::llround(t.link(link).rate_ab.value() * 8 / 1e9);
  }
  return 0;
}

// NCCL_IB_DISABLE=1: sockets over the same ports, without GPUDirect. Returns what to say of it.
std::string without_verbs(BenchSpec& spec) {
  static constexpr std::int64_t kEthernet[] = {800, 400, 200, 100, 50, 40, 25, 10};
  const std::string net = option_of(spec.on, "net");
  const auto machine = load_machine(spec.on, spec.calibration);
  if (!machine) return "";  // the error stands where the machine is loaded
  const std::int64_t rate = verbs_rate(*machine);
  if (rate == 0 || begins_with_one_of(net, {"eth", "efa", "tcpx", "slingshot"}))
    return "NCCL_IB_DISABLE=1 has no effect: NCCL's own RDMA transport carries none of this machine's messages";
  const auto slower = std::ranges::find_if(kEthernet, [&](std::int64_t r) { return r <= rate; });
  const std::string ethernet = fmt::format("eth-{}", slower == std::end(kEthernet) ? 10 : *slower);
  std::string changed = spec.on;
  if (!net.empty()) {
    const std::size_t at = changed.find("net=" + net);
    changed.replace(at + 4, net.size(), ethernet);
  } else {
    changed += fmt::format("{}net={}", changed.find('=') == std::string::npos ? ":" : ",", ethernet);
  }
  if (!has_option(changed, "gdr") && load_machine(changed + ",gdr=loc", spec.calibration)) changed += ",gdr=loc";
  if (!load_machine(changed, spec.calibration))
    return "NCCL_IB_DISABLE=1 has no effect: this machine's file takes no other network";
  spec.on = changed;
  return fmt::format(
      "NCCL_IB_DISABLE=1 holds on this machine: sockets over the same ports (net={}), without GPUDirect; where "
      "NCCL_SOCKET_IFNAME names slower ones, give net=",
      ethernet);
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
  const auto is_ib_disable = [](const std::string& sentence) { return sentence.starts_with("NCCL_IB_DISABLE=1 "); };
  for (const std::string& sentence : settings.nccl_ignored)
    if (is_ib_disable(sentence))
      if (const std::string said = without_verbs(spec); !said.empty()) fmt::print(stderr, "weft: {}\n", said);
  const auto holds = [&](const std::string& sentence) {
    if (begins_with_one_of(sentence, {"NCCL_IB_HCA"})) return settings.nccl_nics.limits();
    if (begins_with_one_of(sentence, {"NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"})) return p2p;
    if (begins_with_one_of(sentence, {"NCCL_NET_GDR_LEVEL"})) return gdr;
    if (sentence.find(" has no effect: ") != std::string::npos) return false;
    if (begins_with_one_of(sentence, {"NCCL_ALGO", "NCCL_NVLS_ENABLE"})) return spec.forced.algorithm.empty();
    if (begins_with_one_of(sentence, {"NCCL_PROTO"})) return spec.forced.protocol.empty();
    if (begins_with_one_of(sentence, {"NCCL_MIN_N", "NCCL_MAX_N", "NCCL_MIN_C", "NCCL_MAX_C"}))
      return spec.forced.channels == 0;
    return begins_with_one_of(sentence, {"NCCL_BUFFSIZE"});
  };
  for (const auto* list : {&settings.nccl_understood, &settings.nccl_ignored})
    for (const std::string& sentence : *list)
      if (is_ib_disable(sentence))
        continue;
      else if (holds(sentence))
        fmt::print(stderr, "weft: {} holds on this machine{}\n", shown(sentence.substr(0, sentence.find(' '))),
                   !spec.forced.tuner.starts_with("nccl")         ? ""
                   : begins_with_one_of(sentence, {"NCCL_MAX_N"}) ? ", except for NVLS, whose channels NCCL does "
                                                                    "not bound by it"
                   : begins_with_one_of(sentence, {"NCCL_MAX_C"}) ? ", except for NVLS, whose channels stay those of "
                                                                    "NCCL's tables here"
                                                                  : "");
      else
        fmt::print(
            stderr, "weft: {}{}\n", shown(sentence),
            sentence.find(" has no effect: ") != std::string::npos ? "" : "; without effect on a simulated machine");
  spec.forced.nccl = std::move(settings);
  return {};
}

void leave_out_nics(BenchSpec& spec, const Machine& machine) {
  if (!machine.simulated || !spec.forced.nccl.nccl_nics.limits()) return;
  const topology::Topology& t = machine.view->topology();
  std::map<int, int> of_node;  // NICs that were seen
  std::vector<std::string> out;
  std::size_t all = 0;
  for (const topology::DeviceId id : t.devices_of(topology::DeviceKind::kNic)) {
    const topology::Device& nic = t.device(id);
    const int number = of_node[nic.node]++;
    ++all;
    if (!env::allows_nic(spec.forced.nccl.nccl_nics, verbs_name(nic, number)))
      out.push_back(fmt::format("nic:{}/{}=down", nic.node, nic.index));
  }
  if (out.size() == all) {
    if (all > 0)
      fmt::print(stderr, "weft: NCCL_IB_HCA allows none of this machine's NICs, {}; all are used\n",
                 t.name_of(t.devices_of(topology::DeviceKind::kNic).front()));
    return;
  }
  spec.conditions.faults.insert(spec.conditions.faults.end(), out.begin(), out.end());
}

}  // namespace weft::cli
