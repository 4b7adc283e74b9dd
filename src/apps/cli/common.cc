#include "apps/cli/common.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "api/this_machine.h"
#include "apps/cli/rates.h"
#include "apps/cli/terminal.h"
#include "base/env.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/text_file.h"
#include "machine/detect/record.h"
#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "net/memory/endpoint.h"

namespace weft::cli {

int report_error(const Error& error) {
  fmt::print(stderr, "weft: {}\n", shown(error.message));
  return error.blame == Blame::kInput ? kBadInput : kBadAnswer;
}

void print_rounded(Bytes asked, const schedule::Task& task, std::string_view type) {
  const Bytes moved = task.elements * task.element_bytes;
  if (moved != asked)
    fmt::print(stderr, "weft: --bytes {}: {} B are moved, as a whole number of {} elements for every part: {}\n", asked,
               moved, type, task.elements);
}

Result<std::vector<Bytes>> sizes_between(const std::string& smallest, const std::string& largest, std::int64_t factor) {
  WEFT_TRY(const Bytes low, parse_message("--min", smallest));
  WEFT_TRY(const Bytes high, parse_message("--max", largest));
  if (low > high) return bad_input("--min {} is more than --max {}", smallest, largest);
  if (factor < 2) return bad_input("--factor {}: at least 2", factor);
  std::vector<Bytes> sizes;
  for (Bytes b = low; b <= high; b = std::max<Bytes>(1, b) * factor) sizes.push_back(b);
  return sizes;
}

// An option that changes nothing is not left without a word.
void say_what_has_no_effect(const std::string& on, const topology::Topology& topology) {
  using topology::DeviceKind;
  const auto between_switches = [&](const topology::Link& l) {
    return topology.device(l.a).kind == DeviceKind::kNetworkSwitch &&
           topology.device(l.b).kind == DeviceKind::kNetworkSwitch;
  };
  const std::size_t at = on.find("oversub=");
  if (at == std::string::npos || std::ranges::any_of(topology.links(), between_switches)) return;
  fmt::print(stderr,
             "weft: {} has no effect on {}: every rail is one switch, and no link leads from one switch to another; "
             "wires=fat-tree has such links\n",
             on.substr(at, on.find(',', at) - at), on);
}

Result<cost::CalibrationText> calibration_of(const std::string& given) {
  if (!given.empty()) return cost::read_calibration(given);
  WEFT_TRY(const env::Settings settings, env::read());
  return cost::read_calibration(settings.calibration);
}

Result<Machine> load_machine(const std::string& on, const std::string& calibration) {
  Machine machine{on, !on.empty() && on != "this", nullptr};
  if (!machine.simulated) {
    if (!calibration.empty()) return bad_input("--calibration is for machines named by --on; this one is measured");
    machine.name = "this";
    WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine());
    WEFT_TRY(machine.view, api::this_machine(rates));
    return machine;
  }
  WEFT_TRY(auto topology, topology::load_machine(on, topology::read_recorded));
  say_what_has_no_effect(on, topology);
  WEFT_TRY(const auto constants, calibration_of(calibration));
  WEFT_TRY(auto view, cost::shipped_view(std::move(topology), constants));
  machine.view = std::make_shared<cost::MachineView>(std::move(view));
  return machine;
}

protocol::Capabilities capabilities_of(const Machine& machine) {
  return machine.simulated ? sim::flow_capabilities(machine.view->topology()) : net::memory::capabilities("memory");
}

Result<Rank> ranks_on(const Machine& machine, std::int64_t asked) {
  if (machine.simulated) return cost::ranks_on(*machine.view, machine.name, asked);
  constexpr std::int64_t kMost = 512;  // processes on one machine
  if (asked < 0) return 2;
  if (asked == 0) return bad_input("--ranks 0: at least one rank is needed");
  if (asked > kMost) return bad_input("--ranks {}: at most {} on one machine", asked, kMost);
  return static_cast<Rank>(asked);
}

Status check_channels(std::int64_t channels) {
  constexpr std::int64_t kMost = 64;
  if (channels < 0 || channels > kMost) return bad_input("--channels {} is outside 1 … {}", channels, kMost);
  return {};
}

Status write_text(const std::string& file, const std::string& text) {
  if (file != "-") return write_file(file, text);
  if (!print_as_it_is(text))
    return failure(Code::kSystem, Blame::kInput, "cannot write standard output: {}", std::strerror(errno));
  return {};
}

std::string writable(const std::string& file) {
  const Status can = file == "-" ? Status() : check_writable(file);
  return can ? "" : can.error().message;
}

std::string writable_folder(const std::string& folder) {
  std::filesystem::path path(folder);
  std::error_code ignored;
  while (!path.empty() && !std::filesystem::exists(path, ignored)) path = path.parent_path();  // is made
  if (path.empty()) path = ".";
  if (!std::filesystem::is_directory(path, ignored)) return fmt::format("{} is no folder", shown(path.string()));
  return writable((path / "x").string());
}

Status write_json(const std::string& file, const nlohmann::json& json) {
  // Names come from files of others: bytes that are no UTF-8 become U+FFFD.
  return write_text(file, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

int terminal_width() {
  constexpr int kNoTerminal = 200, kLeast = 40, kMost = 1000;
  if (const auto given = env::value_of("COLUMNS"))
    if (const auto columns = parse_integer("COLUMNS", *given, kLeast, kMost)) return static_cast<int>(*columns);
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kNoTerminal;
}

}  // namespace weft::cli
