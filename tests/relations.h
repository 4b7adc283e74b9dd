#pragma once

// The relations' tests share random machines of 2 to 8 nodes, cases, and the question for one plan.
// WEFT_RELATIONS=MACHINES[,SEED] tries other machines, or more of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/faults.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"

namespace weft {

using protocol::Protocol;
using schedule::Plan;
using schedule::Task;
using simulate::Outcome;

inline constexpr double kSame =
    2e-3;  // max-min rates are settled to 1e-5 per change; what adds up over a run is below this

// A machine as it is given to users, with faults.
struct Made {
  std::string name;
  topology::Topology healthy;

  explicit Made(std::string of) : name(std::move(of)), healthy(topology::load_machine(name).value()) {}
  simulate::Faulted with(const std::vector<std::string>& faults) const {
    return simulate::apply_faults(healthy, faults).value();
  }
};

struct Case {
  const char* algorithm;
  Collective collective;
  Protocol protocol;
};
inline constexpr Case kCases[] = {
    {"ring", Collective::kAllReduce, Protocol::kSimple},   {"tree", Collective::kAllReduce, Protocol::kLL},
    {"tree", Collective::kAllReduce, Protocol::kLL128},    {"ring", Collective::kAllGather, Protocol::kLL128},
    {"ring", Collective::kReduceScatter, Protocol::kLL},   {"spread", Collective::kAllToAll, Protocol::kSimple},
    {"pairwise", Collective::kAllToAll, Protocol::kSimple}};

inline Task task_on(const cost::MachineView& machine, Collective collective, Bytes bytes) {
  const Rank ranks = machine.endpoints();
  const Bytes unit = Bytes{ranks} * 16;
  return {.collective = collective,
          .ranks = ranks,
          .ranks_per_node = machine.ranks_per_node(ranks),
          .elements = std::max<Bytes>(unit, bytes / 4 / unit * unit),
          .element_bytes = 4};
}

inline Plan plan_on(const cost::MachineView& machine, const Task& task, const Case& c, int channels) {
  const auto& algorithm = **collectives::find_algorithm(c.collective, c.algorithm);
  return make_plan(task, algorithm, c.protocol, channels, sim::flow_capabilities(machine.topology(), 128), true);
}

class Relations : public testing::Test {
 protected:
  void SetUp() override {
    machines_ = 6;
    seed_ = 20261124;
    if (const char* asked = std::getenv("WEFT_RELATIONS")) {
      char* rest = nullptr;
      machines_ = static_cast<int>(std::strtol(asked, &rest, 10));
      if (*rest == ',') seed_ = std::strtoul(rest + 1, nullptr, 10);
    }
    random_.seed(seed_);
    RecordProperty("seed", std::to_string(seed_));
    fmt::print("seed {}\n", seed_);
  }
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  // Rails on one switch each, or all NICs on one: ways are not hashed.
  Made machine(int least = 2, int most = 8) {
    constexpr const char* kPresets[] = {"dgx-h100", "dgx-a100", "gh200", "aws-p5en"};
    const char* preset = kPresets[below(4)];
    return Made(fmt::format("{}:nodes={}{}", preset, least + below(most - least + 1),
                            preset[0] == 'a' ? "" : ",net=ib-ndr,wires=switch"));
  }
  Bytes bytes() { return Bytes{1} << (16 + below(9)); }
  const Case& one_case() { return kCases[below(static_cast<int>(std::size(kCases)))]; }

  int machines_ = 0;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

// `more`: what the healthy machine's plan, if given, takes here.
struct Asked {
  cost::MachineView view;
  sim::Disturbances disturbances;

  explicit Asked(simulate::Faulted faulted)
      : view(cost::shipped_view(std::move(faulted.machine)).value()), disturbances(faulted.disturbances) {}
  Outcome simulated(const Task& task, const Plan& plan, simulate::Options options = {}) const {
    options.disturbances = disturbances;
    auto outcome = simulate::simulate(view, task, plan, options);
    EXPECT_TRUE(outcome.has_value()) << (outcome ? "" : outcome.error().message);
    return outcome.value_or(Outcome{});
  }
};

// A rank's NIC, as `weft bench --fault` names its link.
inline std::string nic_link(const Made& made, int node) {
  for (const topology::Link& l : made.healthy.links())
    if (l.kind == topology::LinkKind::kNetwork && made.healthy.device(l.a).node == node)
      return fmt::format("link:{}-{}", made.healthy.name_of(l.a), made.healthy.name_of(l.b));
  return "";
}

}  // namespace weft
