#include "apps/doctor/parts.h"

#include <cctype>

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

// "0000:b3:00.0" or "0000:3b:00" at `at`, or nothing.
std::string pci_address(std::string_view text, std::size_t at) {
  constexpr std::string_view kForm = "xxxx:xx:xx";
  if (at + kForm.size() > text.size()) return "";
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == ':' ? text[at + i] != ':' : std::isxdigit(static_cast<unsigned char>(text[at + i])) == 0) return "";
  std::size_t end = at + kForm.size();
  if (end + 1 < text.size() && text[end] == '.' && std::isdigit(static_cast<unsigned char>(text[end + 1])) != 0)
    end += 2;
  return std::string(text.substr(at, end - at));
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

void Parts::clear() { *this = Parts(); }

void Parts::line(std::string_view original, int number) {
  const std::string_view text = trimmed(original);
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
  for (const std::string_view word : {"(PCI:", "PCI:", "GPU ", "GPU"})
    if (const auto at = text.find(word); at != std::string_view::npos)
      if (const std::string address = pci_address(text, at + word.size()); !address.empty()) return "GPU " + address;
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
  return nic(text);
}

}  // namespace weft::doctor
