#include "move/reshard/modelled.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "move/reshard/receiver.h"

namespace weft::reshard {

Rank machine_rank_of_receiver(const Plan& plan, Rank receiver) {
  return plan.options().same_ranks ? receiver : plan.from().ranks + receiver;
}

Rank machine_ranks(const Plan& plan) {
  return plan.options().same_ranks ? std::max(plan.from().ranks, plan.to().ranks) : plan.from().ranks + plan.to().ranks;
}

namespace {

Status check_fits(const cost::MachineView& machine, const Plan& plan) {
  if (machine_ranks(plan) <= machine.endpoints()) return {};
  return bad_input("{} and {}: {} ranks, the machine has {}", plan.from().name, plan.to().name, machine_ranks(plan),
                   machine.endpoints());
}

// What a receiver reads of a sender's `bytes`, by sender: all of them, or its table and the changed share.
class Reads {
 public:
  Reads(const Plan& plan, double changed) : plan_(plan), changed_(changed) {}
  std::int64_t of(Rank sender, std::int64_t bytes) {
    if (changed_ <= 0) return bytes;
    const auto known = tables_.try_emplace(sender);
    if (known.second) known.first->second = table_bytes(memory_of(plan_.from(), sender).bytes, Publisher::kUsualBlock);
    return known.first->second + static_cast<std::int64_t>(std::ceil(changed_ * static_cast<double>(bytes)));
  }

 private:
  const Plan& plan_;
  const double changed_;
  std::map<Rank, std::int64_t> tables_;
};

}  // namespace

pgas::Program program_of(const Plan& plan, double changed) {
  const Rank ranks = machine_ranks(plan);
  pgas::Program program(static_cast<std::size_t>(ranks));
  Reads reads(plan, changed);
  for (const PairTotal& p : plan.pairs())
    if (!plan.stays(p.sender, p.receiver) && p.bytes > 0)
      program[static_cast<std::size_t>(machine_rank_of_receiver(plan, p.receiver))].push_back(
          {.kind = pgas::Event::Kind::kGet, .peer = p.sender, .bytes = reads.of(p.sender, p.bytes)});
  // Each begins with another sender, so that they do not all ask the first one.
  for (Rank r = 0; r < plan.to().ranks; ++r) {
    auto& gets = program[static_cast<std::size_t>(machine_rank_of_receiver(plan, r))];
    const auto first = static_cast<std::size_t>(r) * gets.size() / static_cast<std::size_t>(plan.to().ranks);
    std::rotate(gets.begin(), gets.begin() + static_cast<std::ptrdiff_t>(first), gets.end());
  }
  return program;
}

Result<Duration> model_changes(const cost::MachineView& machine, const Plan& plan, double changed) {
  WEFT_CHECK(check_fits(machine, plan));
  WEFT_TRY(const auto outcome, replay::run_on(machine, program_of(plan, changed), 0));
  return outcome.total;
}

Result<Modelled> model(const cost::MachineView& machine, const Plan& plan) {
  WEFT_CHECK(check_fits(machine, plan));
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
