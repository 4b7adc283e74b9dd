#include "model/sim/flow/flow_fabric.h"

#include "exec/kernels/fold.h"
#include "exec/own_signals.h"
#include "machine/machine.h"
#include "model/sim/packet/packets.h"
#include "tests/conformance/job.h"

namespace weft::conformance {
namespace {

constexpr int kStrands = 4;

struct Machine {
  topology::Topology topology = topology::load_machine("dgx-h100").value();
  topology::Routes routes{topology};
  sim::FlowFabric fabric;

  Machine(Rank ranks, bool packets)
      : fabric(topology, routes, ranks,
               {.costs = protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu),
                .strands = kStrands,
                .moves_data = true,
                .carrier = packets ? sim::packet_carrier(topology, {}, nullptr, nullptr) : nullptr}) {}
};

fabric::Capabilities capabilities() { return Machine(2, false).fabric.endpoint(0).capabilities(); }

using Strand = exec::Interpreter<sim::FlowFabric::Endpoint, exec::ProgramCursor>;

// "" or what went wrong in one call of all ranks.
std::string run_phase(sim::FlowFabric& fabric, const Job::Phase& phase) {
  std::vector<Strand> strands;
  for (const auto& program : phase.programs)
    for (std::size_t s = 0; s < kStrands; ++s) {
      exec::ProgramCursor operations;
      if (s < program->size()) operations = {(*program)[s].data(), (*program)[s].data() + (*program)[s].size()};
      strands.emplace_back(static_cast<int>(s), operations);
    }
  const auto elapsed = fabric.run(
      [&](Rank r, int s) { strands[static_cast<std::size_t>(r * kStrands + s)].advance(fabric.endpoint(r)); });
  if (!elapsed) return elapsed.error().message;
  for (const Strand& s : strands)
    if (!s.done()) return fmt::format("strand {} is stuck", s.strand());
  return "";
}

std::vector<std::string> run(const Job& job, bool packets) {
  Machine machine(job.ranks(), packets);
  std::vector<std::vector<std::byte>> in, out;
  for (Rank r = 0; r < job.ranks(); ++r) {
    in.emplace_back(static_cast<std::size_t>(job.bytes()));
    out.emplace_back(static_cast<std::size_t>(job.bytes()));
    job.fill(r, in.back().data());
  }
  for (const Job::Phase& phase : job.phases()) {
    for (Rank r = 0; r < job.ranks(); ++r)
      machine.fabric.endpoint(r).begin({.in = in[static_cast<std::size_t>(r)].data(),
                                        .out = out[static_cast<std::size_t>(r)].data(),
                                        .protocol = phase.protocol,
                                        .fold = exec::fold_for(DataType::kInt32, ReduceOp::kSum),
                                        .scale = phase.scales ? std::optional(Job::scale_of(r)) : std::nullopt,
                                        .publishes = phase.publishes});
    if (std::string wrong = run_phase(machine.fabric, phase); !wrong.empty()) return {wrong};
  }
  std::vector<std::string> wrong;
  for (Rank r = 0; r < job.ranks(); ++r) wrong.push_back(job.compare(r, out[static_cast<std::size_t>(r)].data()));
  std::erase(wrong, "");
  return wrong;
}

}  // namespace

const FabricUnderTest kFlow{"flow",
                            {protocol::Protocol::kSimple, protocol::Protocol::kLL, protocol::Protocol::kLL128},
                            capabilities,
                            [](const Job& job) { return run(job, false); }};
const FabricUnderTest kPacket{"packet",
                              {protocol::Protocol::kSimple, protocol::Protocol::kLL, protocol::Protocol::kLL128},
                              capabilities,
                              [](const Job& job) { return run(job, true); }};

}  // namespace weft::conformance
