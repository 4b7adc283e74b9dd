#include "move/reshard/modelled.h"

#include <algorithm>
#include <map>

namespace weft::reshard {

Rank machine_rank_of_receiver(const Plan& plan, Rank receiver) {
  return plan.options().same_ranks ? receiver : plan.from().ranks + receiver;
}

Rank machine_ranks(const Plan& plan) {
  return plan.options().same_ranks ? std::max(plan.from().ranks, plan.to().ranks) : plan.from().ranks + plan.to().ranks;
}

pgas::Program program_of(const Plan& plan) {
  const Rank ranks = machine_ranks(plan);
  pgas::Program program(static_cast<std::size_t>(ranks));
  for (const PairTotal& p : plan.pairs())
    if (!plan.stays(p.sender, p.receiver) && p.bytes > 0)
      program[static_cast<std::size_t>(machine_rank_of_receiver(plan, p.receiver))].push_back(
          {.kind = pgas::Event::Kind::kGet, .peer = p.sender, .bytes = p.bytes});
  // Each begins with another sender, so that they do not all ask the first one.
  for (Rank r = 0; r < plan.to().ranks; ++r) {
    auto& gets = program[static_cast<std::size_t>(machine_rank_of_receiver(plan, r))];
    const auto first = static_cast<std::size_t>(r) * gets.size() / static_cast<std::size_t>(plan.to().ranks);
    std::rotate(gets.begin(), gets.begin() + static_cast<std::ptrdiff_t>(first), gets.end());
  }
  return program;
}

Result<Modelled> model(const cost::MachineView& machine, const Plan& plan) {
  const Rank ranks = machine_ranks(plan);
  if (ranks > machine.endpoints())
    return bad_input("{} and {}: {} ranks, the machine has {}", plan.from().name, plan.to().name, ranks,
                     machine.endpoints());
  Modelled modelled;
  WEFT_TRY(modelled.outcome, replay::run_on(machine, program_of(plan), 0));
  const topology::Topology& topology = machine.topology();
  const auto is_nic = [&](topology::DeviceId d) { return topology.device(d).kind == topology::DeviceKind::kNic; };
  std::map<topology::DeviceId, Modelled::Nic> nics;
  for (const PairTotal& p : plan.pairs()) {
    if (plan.stays(p.sender, p.receiver)) continue;
    const auto path = machine.path(p.sender, machine_rank_of_receiver(plan, p.receiver));
    for (const topology::Hop& hop : path.hops) {
      const topology::Link& link = topology.link(hop.link);
      if (link.kind != topology::LinkKind::kNetwork) continue;
      const auto [source, target] = hop.forward ? std::pair(link.a, link.b) : std::pair(link.b, link.a);
      if (is_nic(source)) nics[source].out += p.bytes;
      if (is_nic(target)) nics[target].in += p.bytes;
    }
  }
  for (auto& [device, nic] : nics) {
    nic.name = topology.name_of(device);
    modelled.nics.push_back(std::move(nic));
  }
  return modelled;
}

}  // namespace weft::reshard
