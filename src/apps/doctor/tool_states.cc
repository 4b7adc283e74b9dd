#include "apps/doctor/tool_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "machine/import/text_lines.h"

namespace weft::doctor {
namespace {

constexpr std::size_t kMostKept = 100'000;

double number_of(std::string_view text) {
  double value = 0;
  return read_number(text, value).ec == std::errc() ? value : 0;
}

void emit(const Finder& found, const char* id, const std::string& file, int line, std::string text,
          std::string part = "") {
  found(id, {.file = file,
             .text = "weft: topology: " + std::move(text),
             .source = "tool",
             .line = line,
             .part = std::move(part)});
}

}  // namespace

const std::vector<std::string_view>& ToolStates::words() {
  static const std::vector<std::string_view> kWords = {"CA '",
                                                       "CA type",
                                                       "hca_id",
                                                       "board_id",
                                                       "Port ",
                                                       "port:",
                                                       "State",
                                                       "state:",
                                                       "hysical state",
                                                       "phys_state",
                                                       "Rate: ",
                                                       "rate: ",
                                                       "Link layer",
                                                       "link_layer",
                                                       "active_width",
                                                       "active_speed",
                                                       "GPU 0000",
                                                       "Infiniband device",
                                                       "Link Width",
                                                       "Fabric",
                                                       "Max  ",
                                                       "Current  ",
                                                       "Status  ",
                                                       "Uncorrectable",
                                                       "Double Bit ECC",
                                                       "Pending",
                                                       "Remapping Failure",
                                                       "Threshold Exceeded"};
  return kWords;
}

void ToolStates::line(std::string_view text, const std::string& file, int number) {
  if (file != file_) {
    file_ = file;
    device_.clear(), kind_.clear(), section_.clear();
  }
  const std::string_view content = topology::trimmed(text);
  if (content.starts_with("GPU 0000")) {
    if (gpus_.size() < kMostKept)
      gpus_.push_back({.name = std::string(content.substr(4)), .file = file, .line = number});
    section_.clear();
    return;
  }
  if (content == "Link Width" || content == "Fabric") {
    section_ = content;
    return;
  }
  if (content.starts_with("CA '") || content.starts_with("Infiniband device '")) {
    const auto quote = content.find('\'');
    device_ = content.substr(quote + 1, content.find('\'', quote + 1) - quote - 1);
    kind_.clear();
    if (const auto port_at = content.find(" port "); port_at != std::string_view::npos && ports_.size() < kMostKept)
      ports_.push_back({.device = device_,
                        .number = std::string(topology::words_of(content.substr(port_at)).at(1)),
                        .file = file,
                        .line = number});
    return;
  }
  if (content.starts_with("Port ") && content.ends_with(":") && !device_.empty() && ports_.size() < kMostKept) {
    ports_.push_back({.device = device_,
                      .number = std::string(content.substr(5, content.size() - 6)),
                      .kind = kind_,
                      .file = file,
                      .line = number});
    return;
  }
  const auto colon = content.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view key = topology::trimmed(content.substr(0, colon)),
                         value = topology::trimmed(content.substr(colon + 1));
  if (!gpus_.empty() && gpus_.back().file == file) memory(key, value, number);
  if (!section_.empty()) return gpu(key, value, number);
  port(key, value, file, number);
}

void ToolStates::port(std::string_view key, std::string_view value, const std::string& file, int number) {
  if (key == "hca_id") {
    device_ = value;
    kind_.clear();
    return;
  }
  if (key == "CA type" || key == "board_id") {
    kind_ = value;
    return;
  }
  if (device_.empty()) return;
  if (key == "port" && ports_.size() < kMostKept) {
    ports_.push_back({.device = device_, .number = std::string(value), .kind = kind_, .file = file, .line = number});
    return;
  }
  if (ports_.empty() || ports_.back().device != device_ || ports_.back().file != file) return;
  Port& p = ports_.back();
  if (key == "State" || key == "state")
    p.state = topology::lower(value), p.state_line = number;
  else if (key == "Physical state" || key == "phys state" || key == "phys_state")
    p.physical = topology::lower(value);
  else if (key == "Rate" || key == "rate")
    p.rate = number_of(value), p.line = number;
  else if (key == "active_width")
    p.width = number_of(value);
  else if (key == "active_speed")
    p.rate = number_of(value), p.line = number;
  else if (key == "Link layer" || key == "link_layer")
    p.layer = value;
}

// ECC Errors, Remapped Rows and Retired Pages of nvidia-smi -q.
void ToolStates::memory(std::string_view key, std::string_view value, int number) {
  Gpu& g = gpus_.back();
  if (!g.memory.empty()) return;
  const bool counts = key.find("Uncorrectable") != std::string_view::npos || key == "Double Bit ECC";
  const bool says = key.starts_with("Pending") || key.starts_with("Remapping Failure") ||
                    key.find("Threshold Exceeded") != std::string_view::npos;
  if ((counts && number_of(value) > 0) || (says && value == "Yes"))
    g.memory = fmt::format("{}: {}", key, value), g.memory_line = number;
}

void ToolStates::gpu(std::string_view key, std::string_view value, int number) {
  if (gpus_.empty()) return;
  Gpu& g = gpus_.back();
  if (section_ == "Link Width") {
    if (key == "Max") g.most = static_cast<int>(number_of(value));
    if (key == "Current") g.width = static_cast<int>(number_of(value)), g.line = number, section_.clear();
    return;
  }
  if (key == "State") g.fabric = value, g.fabric_line = number;
  if (key == "Status") g.status = value, section_.clear();
}

void ToolStates::finish(const Finder& found) const {
  judge_rates(found);
  judge_states(found);
  judge_gpus(found);
}

void ToolStates::judge_rates(const Finder& found) const {
  std::map<std::string, double> most;  // Gb/s by kind and layer
  const auto kind_of = [](const Port& p) { return p.kind + " " + p.layer; };
  for (const Port& p : ports_)
    if (p.active()) most[kind_of(p)] = std::max(most[kind_of(p)], p.gigabits());
  constexpr double kNearlyAll = 0.9;
  for (const Port& p : ports_)
    if (const double best = p.active() ? most[kind_of(p)] : 0; p.gigabits() > 0 && p.gigabits() < kNearlyAll * best)
      emit(found, "T10", p.file, p.line,
           fmt::format("port {} of {} runs at {:.0f} Gb/s, others{}{} at {:.0f}", p.number, p.device, p.gigabits(),
                       p.kind.empty() ? "" : " of ", p.kind, best));
}

// Ports that are down. Physical states that say why (Polling, Sleep, …) are found line by line, by F062's pattern.
void ToolStates::judge_states(const Finder& found) const {
  std::map<std::string, std::size_t> active;  // by file
  for (const Port& p : ports_) active[p.file] += p.active() ? 1 : 0;
  for (const Port& p : ports_) {
    if (!p.down()) continue;
    const std::size_t others = active[p.file];
    const std::string beside = others == 0 ? ", and no port is Active"
                                           : fmt::format(", {} other{} Active", others, others == 1 ? " is" : "s are");
    const std::string_view how =
        p.disabled()         ? "disabled"
        : p.physical.empty() ? "Down"
        : p.layer == "Ethernet"
            ? "Down though its link is up: the interface is not up"
            : "Down though its link is up: no subnet manager has configured it, or its policy holds "
              "a virtual function down";
    if (!p.disabled() && !p.physical.empty() && p.physical.find("linkup") == std::string::npos) continue;
    emit(found, p.disabled() && others > 0 ? "T14" : "F062", p.file, p.state_line,
         fmt::format("port {} of {} is {}{}", p.number, p.device, how, beside),
         fmt::format("{} port {}", p.device, p.number));
  }
}

void ToolStates::judge_gpus(const Finder& found) const {
  for (const Gpu& g : gpus_) {
    if (g.width > 0 && g.width < g.most)
      emit(found, "T04", g.file, g.line,
           fmt::format("the PCIe link of GPU {} has {} of {} lanes: half the width or less", g.name, g.width, g.most));
    if (!g.memory.empty())
      emit(found, "T12", g.file, g.memory_line, fmt::format("memory of GPU {} has {}", g.name, g.memory));
    const bool bad_state = !g.fabric.empty() && g.fabric != "Completed" && g.fabric != "N/A";
    const bool bad_status = g.fabric == "Completed" && !g.status.empty() && g.status != "Success" && g.status != "N/A";
    if (bad_state || bad_status)
      emit(found, "T11", g.file, g.fabric_line,
           fmt::format("fabric of GPU {} is {}{}", g.name, g.fabric,
                       bad_status ? ", status " + g.status : ": the fabric manager has not finished"));
  }
}

}  // namespace weft::doctor
