#include "cli/common.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "api/this_machine.h"
#include "cli/rates.h"
#include "net/memory/endpoint.h"
#include "sim/flow/flow_fabric.h"
#include "topology/machine.h"

namespace weft::cli {

int report_error(const Error& error) {
  fmt::print(stderr, "weft: {}\n", error.message);
  return error.blame == Blame::kInput ? kBadInput : kBadAnswer;
}

Result<Machine> load_machine(const std::string& on) {
  Machine machine{on, !on.empty() && on != "this", nullptr};
  if (!machine.simulated) {
    machine.name = "this";
    WEFT_TRY(const calibrate::Rates rates, rates_of_this_machine());
    WEFT_TRY(auto view, api::this_machine(rates));
    machine.view = std::make_shared<cost::MachineView>(std::move(view));
    return machine;
  }
  WEFT_TRY(auto topology, topology::load_machine(on));
  const auto first = topology.device(topology.endpoints().front()).kind;
  const auto kind =
      first == topology::DeviceKind::kGpu ? protocol::HopCosts::Endpoint::kGpu : protocol::HopCosts::Endpoint::kCpu;
  machine.view = std::make_shared<cost::MachineView>(std::move(topology), protocol::HopCosts::shipped(kind));
  return machine;
}

protocol::Capabilities capabilities_of(const Machine& machine) {
  constexpr int kSimulatedStrands = 64;
  return machine.simulated ? sim::flow_capabilities(kSimulatedStrands) : net::memory::capabilities("memory");
}

Result<DataType> parse_type(const std::string& name) {
  if (name == "float" || name == "fp32") return DataType::kFloat32;
  if (name == "double" || name == "fp64") return DataType::kFloat64;
  if (name == "int32") return DataType::kInt32;
  if (name == "int64") return DataType::kInt64;
  return bad_input("unknown type '{}'; there are float, double, int32, int64", name);
}

std::string_view name_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float";
    case DataType::kFloat64:
      return "double";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
  }
  return "?";
}

Result<ReduceOp> parse_op(const std::string& name) {
  if (name == "sum") return ReduceOp::kSum;
  return bad_input("unknown operation '{}'; there is sum", name);
}

Result<Rank> ranks_on(const Machine& machine, std::int64_t asked) {
  const Rank there = machine.view->endpoints();
  constexpr std::int64_t kMost = 512;  // processes on one machine
  if (asked < 0) return machine.simulated ? there : 2;
  if (asked == 0) return bad_input("--ranks 0: at least one rank is needed");
  if (machine.simulated && asked > there)
    return bad_input("--ranks {}: {} has {} {}s", asked, machine.name, there,
                     machine.view->costs().gpu() ? "GPU" : "core");
  if (!machine.simulated && asked > kMost) return bad_input("--ranks {}: at most {} on one machine", asked, kMost);
  return static_cast<Rank>(asked);
}

Status check_channels(std::int64_t channels) {
  constexpr std::int64_t kMost = 64;
  if (channels < 0 || channels > kMost) return bad_input("--channels {} is outside 1 … {}", channels, kMost);
  return {};
}

Bytes elements_of(Collective collective, Rank ranks, Bytes bytes, DataType type) {
  const bool parts = collective == Collective::kAllGather || collective == Collective::kReduceScatter;
  const Bytes unit = parts ? ranks : 1;
  return std::max<Bytes>(1, bytes / size_of(type) / unit) * unit;
}

Status write_text(const std::string& file, const std::string& text) {
  if (file == "-") {
    fmt::print("{}", text);
    return {};
  }
  const std::string fresh = fmt::format("{}.{}", file, getpid());
  {
    std::ofstream out(fresh, std::ios::binary);
    out << text << std::flush;
    if (!out) return failure(Code::kSystem, Blame::kInput, "cannot write {}", file);
  }
  if (std::rename(fresh.c_str(), file.c_str()) != 0) {
    unlink(fresh.c_str());
    return failure(Code::kSystem, Blame::kInput, "cannot write {}", file);
  }
  return {};
}

Status write_json(const std::string& file, const nlohmann::json& json) { return write_text(file, json.dump(2) + "\n"); }

int terminal_width() {
  constexpr int kNoTerminal = 200;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kNoTerminal;
}

}  // namespace weft::cli
