#include "apps/training/traffic.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/cost/expert_kernels.h"
#include "plan/schedule/collective.h"
#include "plan/tune/nccl/search.h"
#include "plan/tune/tune.h"

namespace weft::training {
namespace {

using topology::Device;
using topology::DeviceId;
using topology::DeviceKind;
using topology::Link;

constexpr Bytes kElement = 2;
// Of one plan: a plan that takes more has its estimate, which then hardly differs. A step has tens of questions.
constexpr double kMostSteps = 1e6;

// The machine without GPUs that are not in the group, without nodes that have none of it and, where the group lies in
// one node, without the `network`. Each group of a node uses as many NICs as it has members there; where all groups
// together need more than there are, each gets its share.
topology::Topology part_of(const topology::Topology& whole, const std::vector<DeviceId>& members, bool network) {
  std::vector<int> member(whole.devices().size(), 0);
  std::vector<int> per_node(static_cast<std::size_t>(whole.nodes()), 0), gpus(per_node), nics(per_node),
      number(per_node);
  for (const DeviceId id : members) {
    member[static_cast<std::size_t>(id)] = 1;
    ++per_node[static_cast<std::size_t>(whole.device(id).node)];
  }
  for (DeviceId id = 0; id < static_cast<DeviceId>(whole.devices().size()); ++id) {
    const Device& d = whole.device(id);
    if (d.node < 0) continue;
    if (d.kind == DeviceKind::kGpu) ++gpus[static_cast<std::size_t>(d.node)];
    // A NIC whose cable or switch is gone carries nothing.
    if (d.kind == DeviceKind::kNic && std::ranges::any_of(whole.links_of(id), [&](topology::LinkId l) {
          return whole.device(whole.other_end(l, id)).node != d.node;
        }))
      ++nics[static_cast<std::size_t>(d.node)];
  }
  for (int n = 0, next = 0; n < whole.nodes(); ++n)
    number[static_cast<std::size_t>(n)] = per_node[static_cast<std::size_t>(n)] > 0 ? next++ : -1;
  topology::Topology part;
  part.title = whole.title.substr(0, whole.title.find(':'));
  part.routing = whole.routing;
  std::vector<DeviceId> renamed(whole.devices().size(), -1);
  for (std::size_t i = 0; i < renamed.size(); ++i) {
    Device device = whole.devices()[i];
    if (device.node >= 0 && number[static_cast<std::size_t>(device.node)] < 0) continue;
    if (device.kind == DeviceKind::kGpu && member[i] == 0) continue;
    if (!network && (device.kind == DeviceKind::kNic || device.kind == DeviceKind::kNetworkSwitch)) continue;
    if (device.node >= 0) device.node = number[static_cast<std::size_t>(device.node)];
    renamed[i] = part.add(std::move(device));
  }
  for (const Link& old : whole.links()) {
    Link link = old;
    link.a = renamed[static_cast<std::size_t>(old.a)];
    link.b = renamed[static_cast<std::size_t>(old.b)];
    if (link.a < 0 || link.b < 0) continue;
    const DeviceId nic = whole.device(old.a).kind == DeviceKind::kNic   ? old.a
                         : whole.device(old.b).kind == DeviceKind::kNic ? old.b
                                                                        : -1;
    if (nic >= 0) {
      const auto node = static_cast<std::size_t>(whole.device(nic).node);
      const int groups = std::max(1, gpus[node] / std::max(1, per_node[node]));
      const int needed = groups * std::min(nics[node], per_node[node]);
      // Groups cannot be divided between NICs: where they do not divide evenly, the fullest NIC has one more.
      const double share = 1.0 / std::max(1, (needed + nics[node] - 1) / std::max(1, nics[node]));
      link.rate_ab = link.rate_ab * share;
      link.rate_ba = link.rate_ba * share;
    }
    part.connect(link);
  }
  return part;
}

}  // namespace

Rank Traffic::gpus_per_node() const {
  const auto node_of = [&](Rank r) { return machine_->topology().device(machine_->device(r)).node; };
  Rank n = 0;
  while (n < machine_->endpoints() && node_of(n) == node_of(0)) ++n;
  return n;
}

std::vector<Rank> Traffic::firsts(Group group) const {
  constexpr std::size_t kMost = 16;  // of a node's GPUs, one each; racks have more, and are looked at in part
  std::vector<Rank> firsts{0};
  if (troubled_.empty()) return firsts;
  const Rank span = group.ranks * group.stride;
  for (Rank r = 0; r < machine_->endpoints() && firsts.size() < kMost; ++r) {
    const int node = machine_->topology().device(machine_->device(r)).node;
    if (!std::ranges::binary_search(troubled_, node)) continue;
    const Rank first = r / span * span + r % group.stride;
    if (first + (group.ranks - 1) * group.stride < machine_->endpoints() &&
        std::ranges::find(firsts, first) == firsts.end())
      firsts.push_back(first);
  }
  return firsts;
}

struct Traffic::Part {
  cost::MachineView view;
  std::map<std::tuple<Collective, Rank, Bytes, bool, bool>, Cost> known = {};
  std::map<std::tuple<Collective, Rank, Experts, bool>, Cost> known_experts = {};
  std::map<Rank, std::optional<tune::nccl::System>> systems = {};  // nothing: NCCL's tuner does not know it

  const tune::nccl::System* system_of(Rank ranks) {
    const auto [at, added] = systems.try_emplace(ranks);
    if (added)
      if (auto system = tune::nccl::system_of(view, ranks)) at->second = std::move(*system);
    return at->second ? &*at->second : nullptr;
  }
};

KnownParts::KnownParts() = default;
KnownParts::~KnownParts() = default;

Traffic::Part& KnownParts::of(topology::Topology part, const cost::MachineView& whole) {
  for (const auto& known : parts_)
    if (known->view.topology() == part) return *known;
  parts_.push_back(std::make_unique<Traffic::Part>(
      Traffic::Part{cost::MachineView(std::move(part), whole.costs(), whole.caches())}));
  return *parts_.back();
}

Traffic::Traffic(const cost::MachineView& machine, std::vector<int> troubled, std::shared_ptr<KnownParts> parts)
    : machine_(&machine),
      troubled_(std::move(troubled)),
      parts_(parts ? std::move(parts) : std::make_shared<KnownParts>()) {}

Result<Traffic::Part*> Traffic::part_for(Group group, Rank first) {
  const auto found = part_of_group_.find({group, first});
  if (found != part_of_group_.end()) return found->second;
  std::vector<DeviceId> members;
  for (Rank i = 0; i < group.ranks; ++i) members.push_back(machine_->device(first + i * group.stride));
  const auto node_of = [&](DeviceId id) { return machine_->topology().device(id).node; };
  const bool several = std::ranges::any_of(members, [&](DeviceId id) { return node_of(id) != node_of(members[0]); });
  topology::Topology part = part_of(machine_->topology(), members, several);
  if (!several && !part.validate()) part = part_of(machine_->topology(), members, true);
  WEFT_CHECK(part.validate());
  return part_of_group_.emplace(std::pair(group, first), &parts_->of(std::move(part), *machine_)).first->second;
}

namespace {

// What is known of `key`, or else what `work` finds.
template <class Key, class Work>
Result<Traffic::Cost> kept(std::map<Key, Traffic::Cost>& known, const Key& key, const Work& work) {
  if (const auto found = known.find(key); found != known.end()) return found->second;
  WEFT_TRY(const Traffic::Cost cost, work());
  return known.emplace(key, cost).first->second;
}

}  // namespace

template <class Key, class Work>
Result<Traffic::Cost> Traffic::slowest(std::map<Key, Cost>& known, const Key& key, Group group, const Work& work) {
  if (std::int64_t{group.ranks - 1} * group.stride >= machine_->endpoints())
    return bad_input("a group of {}, {} apart, does not fit on {}", counted(group.ranks, "GPU"), group.stride,
                     counted(machine_->endpoints(), "GPU"));
  if (const auto found = known.find(key); found != known.end()) return found->second;
  Cost slowest;
  for (const Rank first : firsts(group)) {
    WEFT_TRY(const Cost cost, work(first));
    if (cost.seconds >= slowest.seconds) slowest = cost;
  }
  known.emplace(key, slowest);
  return slowest;
}

Result<Traffic::Cost> Traffic::operator()(Collective collective, Group group, Bytes bytes) {
  if (group.ranks <= 1 || bytes <= 0) return Cost{};
  return slowest(known_, std::tuple(collective, group, bytes, estimate_only_, as_nccl_), group,
                 [&](Rank first) -> Result<Cost> {
                   WEFT_TRY(Part * part, part_for(group, first));
                   return kept(part->known, std::tuple(collective, group.ranks, bytes, estimate_only_, as_nccl_),
                               [&] { return of_part(*part, collective, group.ranks, bytes); });
                 });
}

Result<Traffic::Cost> Traffic::operator()(Collective collective, Group group, const Experts& experts) {
  if (group.ranks <= 1 || experts.tokens <= 0) return Cost{};
  return slowest(known_experts_, std::tuple(collective, group, experts, estimate_only_), group,
                 [&](Rank first) -> Result<Cost> {
                   WEFT_TRY(Part * part, part_for(group, first));
                   return kept(part->known_experts, std::tuple(collective, group.ranks, experts, estimate_only_),
                               [&] { return of_part(*part, collective, group.ranks, experts); });
                 });
}

Result<Traffic::Cost> Traffic::of_part(Part& part, Collective collective, Rank ranks, Bytes bytes) const {
  const Bytes unit = schedule::message_parts(collective, ranks);
  const schedule::Task task{.collective = collective,
                            .ranks = ranks,
                            .ranks_per_node = part.view.ranks_per_node(ranks),
                            .elements = std::max<Bytes>(1, bytes / kElement / unit) * unit,
                            .element_bytes = kElement};
  predict::Query query{.question = {.task = task, .can = sim::flow_capabilities(part.view.topology())}};
  if (as_nccl_) query.nccl = part.system_of(ranks);
  // What NCCL's tuner does not model is weft's own choice.
  if (query.nccl != nullptr && !tune::nccl::choose(part.view, *query.nccl, query.question)) query.nccl = nullptr;
  return simulated(part.view, std::move(query));
}

Result<Traffic::Cost> Traffic::of_part(const Part& part, Collective collective, Rank ranks,
                                       const Experts& experts) const {
  const Rank per_node = part.view.ranks_per_node(ranks);
  WEFT_TRY(auto routes, schedule::draw({.ranks = ranks,
                                        .ranks_per_node = per_node,
                                        .tokens = experts.tokens,
                                        .per_token = experts.per_token,
                                        .experts = experts.experts,
                                        .copies = experts.copies}));
  WEFT_TRY(auto costs,
           cost::expert_costs(part.view, collective, ranks, {.copies = experts.copies, .experts = experts.experts}));
  const cost::MachineView view(part.view.topology(), std::move(costs), part.view.caches());
  const Bytes travelling = experts.tokens * (experts.copies == schedule::Copies::kPerExpert ? experts.per_token : 1);
  const Bytes groups = routes->tokens_per_rank(),
              each = (travelling * experts.token_bytes / kElement + groups - 1) / groups * groups;
  const schedule::Task task{.collective = collective,
                            .ranks = ranks,
                            .ranks_per_node = per_node,
                            .elements = each * ranks,
                            .element_bytes = kElement,
                            .routes = std::move(routes)};
  return simulated(view, {.question = {.task = task,
                                       .can = sim::flow_capabilities(view.topology()),
                                       .protocol = std::string(traits(protocol::Protocol::kSimple).name),
                                       .channels = 1}});
}

Result<Traffic::Cost> Traffic::simulated(const cost::MachineView& view, predict::Query query) const {
  WEFT_TRY(const tune::Candidate estimated, query.nccl != nullptr
                                                ? tune::nccl::choose(view, *query.nccl, query.question)
                                                : tune::choose(view, query.question));
  const Cost estimate{estimated.estimate.total.s(), estimated.plan.channels,
                      std::string(estimated.plan.algorithm->name), false};
  if (estimate_only_) return estimate;
  query.options.most_steps = kMostSteps;
  const auto answer = predict::predict(view, query);
  if (!answer && answer.error().code == Code::kNoResources) return estimate;
  if (!answer) return tl::make_unexpected(answer.error());
  const schedule::Plan& plan = answer->choice.plan;
  return Cost{answer->outcome.time.s(), plan.channels, std::string(plan.algorithm->name), true};
}

}  // namespace weft::training
