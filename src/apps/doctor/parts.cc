#include "apps/doctor/parts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <utility>

#include "base/job_text.h"

namespace weft::doctor {
namespace {

constexpr int kNearLines = 40;  // ibv_devinfo -v prints as many between a port's name and its state
constexpr int kNearGpu = 3;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

std::string word_at(std::string_view text, std::size_t at, std::string_view until) {
  text = trimmed(text.substr(at));
  return std::string(text.substr(0, text.find_first_of(until)));
}

bool hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

// "0000:B3:00.0", "0000:b3:00" or "00000000:b3:00.0" (nvidia-smi) at `at`: "0000:b3:00.0"; or nothing.
std::string pci_address(std::string_view text, std::size_t at) {
  constexpr std::size_t kDomain = 4;
  constexpr std::string_view kForm = "xxxx:xx:xx";
  std::size_t digits = 0;
  while (at + digits < text.size() && hex(text[at + digits])) ++digits;
  if (digits < kDomain || digits > 2 * kDomain) return "";
  at += digits - kDomain;  // the last four digits of a longer domain
  if (at + kForm.size() > text.size()) return "";
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == ':' ? text[at + i] != ':' : !hex(text[at + i])) return "";
  const std::size_t end = at + kForm.size();
  const bool function =
      end + 1 < text.size() && text[end] == '.' && std::isdigit(static_cast<unsigned char>(text[end + 1])) != 0;
  std::string address = std::string(text.substr(at, kForm.size())).append(function ? text.substr(end, 2) : ".0");
  for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return address;
}

// The address behind one of these words.
std::string address_behind(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (const auto at = text.find(word); at != std::string_view::npos)
      if (std::string address = pci_address(text, at + word.size()); !address.empty()) return address;
  return "";
}

std::string nic_address(std::string_view text) {
  const std::string address = address_behind(text, {"mlx5_core ", "mlx4_core ", "bnxt_en ", "ice "});
  return address.empty() ? "" : "NIC " + address;
}

// sinfo -lNe: "gpu017  1  batch  down*  …"; sinfo: "gpu*  up  infinite  3  drain gpu[011-013]".
std::string out_of_service(std::string_view text) {
  std::array<std::string_view, 6> words;
  std::size_t count = 0;
  for (std::size_t at = text.find_first_not_of(' '); at != std::string_view::npos && count < words.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    words[count++] = text.substr(at, end - at);
    at = text.find_first_not_of(' ', end);
  }
  const auto out = [](std::string_view state) {
    return state.starts_with("down") || state.starts_with("drain") || state.starts_with("drng") ||
           state.starts_with("fail");
  };
  if (count == words.size() && out(words[3]) && number_at(words[1], 0) >= 0) return std::string(words[0]);
  if (count == words.size() && out(words[4]) && number_at(words[3], 0) >= 0) return std::string(words[5]);
  return "";
}

// "srun: error: Node failure on gpu-a17", "Nodes gpu-a17 not responding", "node/gpu-7", "Node gpu-7 status is now: …".
std::string node_named(std::string_view text) {
  constexpr std::string_view kUntil = " \t,;\"'";
  for (const std::string_view word : {"Node failure on ", " node/", "Nodes "})
    if (const auto at = text.find(word); at != std::string_view::npos) {
      const std::string node = word_at(text, at + word.size(), kUntil);
      if (!node.empty() && (word != "Nodes " || text.find("not responding") != std::string_view::npos)) return node;
    }
  if (const std::string out = out_of_service(text); !out.empty()) return out;
  if (text.find("status is now: ") != std::string_view::npos)
    if (const auto at = text.find("Node "); at != std::string_view::npos) return word_at(text, at + 5, kUntil);
  // kubectl get nodes: "gpu-7   NotReady   <none>   12d   v1.29.3"
  if (const auto at = text.find("NotReady"); at != std::string_view::npos && at > 1 && text[at - 1] == ' ')
    if (const auto end = text.find(' ');
        end != std::string_view::npos && trimmed(text.substr(end)).starts_with("NotReady"))
      return std::string(text.substr(0, end));
  return "";
}

// "pod/train-1", "in pod train-0_ml(1f)".
std::string pod_named(std::string_view text) {
  for (const std::string_view word : {" pod/", "in pod "})
    if (const auto at = text.find(word); at != std::string_view::npos)
      return word_at(text, at + word.size(), " \t_(,;\"'");
  return "";
}

// "mlx5_3", "efa_0", "bnxt_re1", "irdma0" in the text.
std::string nic(std::string_view text) {
  for (const std::string_view family : {"mlx5_", "mlx4_", "efa_", "bnxt_re", "irdma", "hfi1_"})
    for (auto at = text.find(family); at != std::string_view::npos; at = text.find(family, at + 1)) {
      std::size_t end = at + family.size();
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
      const bool starts = at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0;
      if (starts && end > at + family.size()) return std::string(text.substr(at, end - at));
    }
  return "";
}

}  // namespace

std::pair<std::string, std::string> nic_and_name(std::string_view text) { return {nic_address(text), nic(text)}; }

void Parts::clear() { *this = Parts(); }

// "Name:   train-0" and "Node:   gpu-7/10.0.3.7" at the start of a line begin what kubectl says of a pod.
void Parts::describe(std::string_view text) {
  if (text.starts_with("Name: ")) pod_ = word_at(text, 6, " \t\r"), node_.clear();
  if (text.starts_with("Roles: ")) node_ = std::exchange(pod_, {});  // kubectl describe node
  if (text.starts_with("Node: ")) node_ = word_at(text, 6, " \t\r/");
}

void Parts::line(std::string_view original, int number) {
  const std::string_view text = trimmed(original);
  if (text.size() == original.size()) describe(text);
  const auto device = [&](std::string name) {
    device_ = std::move(name);
    port_.clear();
    port_line_ = number;
  };
  if (text.starts_with("CA '")) {
    device(word_at(text, 4, "'"));
  } else if (text.starts_with("Infiniband device '")) {
    device(word_at(text, 19, "'"));
    if (const int port = number_behind(text, "' port "); port >= 0) port_ = std::to_string(port);
  } else if (text.starts_with("hca_id:")) {
    device(word_at(text, 7, " \t\r"));
  } else if (text.starts_with("Port ") && number_at(text, 5) >= 0 && !device_.empty()) {
    port_ = std::to_string(number_at(text, 5)), port_line_ = number;
  } else if (text.starts_with("port:") && !device_.empty()) {
    port_ = word_at(text, 5, " \t\r"), port_line_ = number;
  } else if (const auto at = text.find("NVIDIA GPU "); at != std::string_view::npos) {
    if (const std::string address = pci_address(text, at + 11); !address.empty())
      gpu_ = "GPU " + address, gpu_line_ = number;
  }
}

std::string Parts::of(std::string_view text, int number) const {
  const std::string_view line = trimmed(text);
  const bool of_port = line.starts_with("State") || line.starts_with("state") || line.starts_with("Physical state") ||
                       line.starts_with("phys");
  if (of_port)
    return device_.empty() || number - port_line_ > kNearLines ? ""
           : port_.empty()                                     ? device_
                                                               : device_ + " port " + port_;
  const std::string address = address_behind(text, {"PCI:", "GPU ", "GPU"});
  if (!address.empty())
    return (text.find("SXid") == std::string_view::npos && text.find("nvswitch") == std::string_view::npos
                ? "GPU "
                : "NVSwitch ") +
           address;
  // torch's "GPU 7 has a total capacity of", and "GPU 5: power brake slowdown".
  if (const auto at = text.find("GPU "); at != std::string_view::npos)
    if (const int gpu = number_at(text, at + 4); gpu >= 0) {
      const auto end = text.find_first_not_of("0123456789", at + 4);
      if (end != std::string_view::npos && (text[end] == ':' || text.substr(end).starts_with(" has a total capacity")))
        return "GPU " + std::to_string(gpu);
    }
  if (text.find("NVRM") != std::string_view::npos) {
    if (const int gpu = number_behind(text, "NVRM: GPU"); gpu >= 0) return "GPU " + std::to_string(gpu);
    if (!gpu_.empty() && number - gpu_line_ <= kNearGpu) return gpu_;
    return "";
  }
  if (const std::string name = nic(text); !name.empty()) return name;
  if (std::string own = nic_address(text); !own.empty()) return own;
  if (const auto at = text.find(" on "); text.find("EDAC ") != std::string_view::npos && at != std::string_view::npos)
    return "memory " + word_at(text, at + 4, " \t(");
  if (const std::string node = node_named(line); !node.empty()) return "node " + node;
  const bool described = line.size() < text.size() && !pod_.empty();
  const std::string pod = described ? pod_ : pod_named(text);
  if (pod.empty()) return line.size() < text.size() && !node_.empty() ? "node " + node_ : "";
  return described && !node_.empty() ? "pod " + pod + " on node " + node_ : "pod " + pod;
}

}  // namespace weft::doctor
