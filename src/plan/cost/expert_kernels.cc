#include "plan/cost/expert_kernels.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/embedded.h"
#include "plan/cost/shipped.h"

namespace weft::embedded {
std::span<const File> expert_kernel_files();
}

namespace weft::cost {
namespace {

using nlohmann::json;
using protocol::HopCosts;

constexpr int kAll = 1 << 20;  // messages under way: buffers are set aside for all of them

// The shipped table; expert_kernels_test looks at every entry.
const json& kernels() {
  static const json loaded = json::parse(embedded::expert_kernel_files()[0].text);
  return loaded;
}

// The kernel's numbers: those of any GPU, overlaid by those of this generation.
json numbers_of(Collective collective, schedule::Copies copies, const HopCosts::Conditions& conditions) {
  json found = json::object();
  for (const json& e : kernels().at("kernels")) {
    const bool mine = e.at("collective") == schedule::name(collective) &&
                      e.at("mode") == (copies == schedule::Copies::kPerExpert ? "low-latency" : "normal");
    if (!mine || (e.contains("on") && std::ranges::find(conditions, e.at("on").get<std::string>()) == conditions.end()))
      continue;
    found.update(e);
  }
  WEFT_ASSERT(found.contains("launch_us"), "expert_kernels.json: no kernel of {}", schedule::name(collective));
  return found;
}

}  // namespace

bool by_expert_kernels(const MachineView& machine, Collective collective) {
  return schedule::routed(collective) && machine.costs().gpu();
}

Result<HopCosts> expert_costs(const MachineView& machine, Collective collective, Rank ranks,
                              const ExpertKernel& kernel) {
  WEFT_TRY(const auto conditions, conditions_of(machine.topology()));
  const json n = numbers_of(collective, kernel.copies, conditions);
  const auto number = [&](const char* field) { return n.value(field, 0.0); };
  const Rank nodes = (ranks + machine.ranks_per_node(ranks) - 1) / machine.ranks_per_node(ranks);
  const double counts =
      kernel.counts_known || nodes < 2 ? 0 : number("counts_us") + nodes * number("counts_per_node_us");
  // Half of the multiprocessors send, half receive: a channel of two moves what one of them does.
  const char* const each = nodes < 2 ? "multiprocessors_GBps" : "multiprocessors_across_GBps";
  const double rate = n.contains(each) ? number(each) * kernel.multiprocessors / 2 : number("rate_GBps");
  const auto hop = [&](const char* path, double latency, double post, double most, const char* efficiency) {
    return json{{"endpoint", "gpu"},
                {"path", path},
                {"protocol", "Simple"},
                {"latency_us", latency},
                {"trips", 1},
                {"added_us", 0},
                {"overhead_us", post},
                {"fence_us", 0},
                {"messages", kAll},
                {"channel_GBps", most},
                {"efficiency", number(efficiency)},
                {"source", "expert_kernels.json"},
                {"date", n.at("date")}};
  };
  json hops = json::array();
  for (const char* path : {"NVL", "PIX", "PXB", "PHB", "SYS"})
    hops.push_back(hop(path, number("within_us"), 0, rate, "within_efficiency"));
  const double post = kernel.posting ? kernel.posting->us() : number("post_us");
  hops.push_back(hop("NET", number("across_us"), post, rate, "across_efficiency"));
  const json over = {{"schema", "weft.calibration/1"},
                     {"hops", hops},
                     {"launches",
                      {{{"endpoint", "gpu"},
                        {"protocol", "Simple"},
                        {"latency_us", number("launch_us") + number("expert_us") * kernel.experts + counts},
                        {"source", "expert_kernels.json"},
                        {"date", n.at("date")}}}},
                     {"local",
                      {{{"endpoint", "gpu"},
                        {"channel_GBps", number("local_GBps")},
                        {"source", "expert_kernels.json"},
                        {"date", n.at("date")}}}}};
  return HopCosts::calibrated(HopCosts::Endpoint::kGpu, conditions, "expert_kernels.json", over.dump());
}

}  // namespace weft::cost
