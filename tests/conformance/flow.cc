#include "exec/kernels/fold.h"
#include "sim/flow/flow_fabric.h"
#include "tests/conformance/job.h"

namespace weft::conformance {
namespace {

constexpr int kStrands = 4;

// One CPU with a core for every rank: the machine on which all message protocols of the suite exist.
topology::Topology machine_of(Rank ranks) {
  using topology::DeviceKind;
  topology::Topology t;
  t.title = "cores";
  const auto cpu = t.add({.kind = DeviceKind::kCpu, .node = 0});
  const auto memory = t.add({.kind = DeviceKind::kMemory, .node = 0});
  const BytesPerSecond rate = BytesPerSecond::gigabytes(100);
  t.connect({.kind = topology::LinkKind::kMemory,
             .a = cpu,
             .b = memory,
             .rate_ab = rate,
             .rate_ba = rate,
             .latency = Duration::nanoseconds(80)});
  for (Rank r = 0; r < ranks; ++r) {
    const auto core = t.add({.kind = DeviceKind::kCore, .node = 0, .index = r});
    t.connect({.kind = topology::LinkKind::kMemory,
               .a = core,
               .b = cpu,
               .rate_ab = rate,
               .rate_ba = rate,
               .latency = Duration::nanoseconds(30)});
  }
  return t;
}

sim::FlowOptions options() {
  return {.costs = protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kCpu),
          .strands = kStrands,
          .moves_data = true};
}

fabric::Capabilities capabilities() {
  const topology::Topology machine = machine_of(1);
  const topology::Routes routes(machine);
  sim::FlowFabric fabric(machine, routes, 1, options());
  return fabric.endpoint(0).capabilities();
}

// Runs one phase to its end in virtual time; "" or what went wrong.
std::string run_phase(const Job::Phase& phase, sim::FlowFabric& fabric, std::vector<std::vector<std::byte>>& in,
                      std::vector<std::vector<std::byte>>& out) {
  using Strand = exec::Interpreter<sim::FlowFabric::Endpoint, exec::ProgramCursor>;
  std::vector<std::unique_ptr<Strand>> strands(static_cast<std::size_t>(fabric.ranks() * kStrands));
  for (Rank r = 0; r < fabric.ranks(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    fabric.endpoint(r).begin({.protocol = phase.protocol,
                              .in = in[i].data(),
                              .out = out[i].data(),
                              .fold = exec::fold_for(DataType::kInt32, ReduceOp::kSum),
                              .publishes = phase.publishes});
    for (std::size_t s = 0; s < phase.programs[i]->size(); ++s) {
      const auto& program = (*phase.programs[i])[s];
      strands[i * kStrands + s] = std::make_unique<Strand>(
          static_cast<int>(s), exec::ProgramCursor{program.data(), program.data() + program.size()});
    }
  }
  const auto time = fabric.run([&](Rank r, int s) {
    if (Strand* strand = strands[static_cast<std::size_t>(r * kStrands + s)].get())
      (void)strand->advance(fabric.endpoint(r));
  });
  if (!time) return time.error().message;
  for (const auto& strand : strands)
    if (strand && !strand->done()) return "a strand is stuck";
  return "";
}

std::vector<std::string> run(const Job& job) {
  const topology::Topology machine = machine_of(job.ranks());
  const topology::Routes routes(machine);
  std::vector<std::vector<std::byte>> in(static_cast<std::size_t>(job.ranks()),
                                         std::vector<std::byte>(static_cast<std::size_t>(job.bytes())));
  auto out = in;
  for (Rank r = 0; r < job.ranks(); ++r) job.fill(r, in[static_cast<std::size_t>(r)].data());
  std::vector<std::string> wrong;
  for (const Job::Phase& phase : job.phases()) {
    sim::FlowFabric fabric(machine, routes, job.ranks(), options());
    if (std::string problem = run_phase(phase, fabric, in, out); !problem.empty()) wrong.push_back(std::move(problem));
  }
  for (Rank r = 0; r < job.ranks(); ++r)
    if (std::string problem = job.compare(r, out[static_cast<std::size_t>(r)].data()); !problem.empty())
      wrong.push_back(std::move(problem));
  return wrong;
}

}  // namespace

const FabricUnderTest kFlow{"flow", capabilities, run};

}  // namespace weft::conformance
