#include "apps/training/traffic.h"

#include <algorithm>
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

// The machine without GPUs that are not in the group and without nodes that have none of it. Each group of a node uses
// as many NICs as it has members there; where all groups together need more than there are, each gets its share.
topology::Topology part_of(const topology::Topology& whole, const std::vector<DeviceId>& members) {
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
  part.title = whole.title;
  part.routing = whole.routing;
  std::vector<DeviceId> renamed(whole.devices().size(), -1);
  for (std::size_t i = 0; i < renamed.size(); ++i) {
    Device device = whole.devices()[i];
    if (device.node >= 0 && number[static_cast<std::size_t>(device.node)] < 0) continue;
    if (device.kind == DeviceKind::kGpu && member[i] == 0) continue;
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

Result<const cost::MachineView*> Traffic::part_for(Group group, Rank first) {
  const auto found = parts_.find({group, first});
  if (found != parts_.end()) return found->second.get();
  std::vector<DeviceId> members;
  for (Rank i = 0; i < group.ranks; ++i) members.push_back(machine_->device(first + i * group.stride));
  topology::Topology part = part_of(machine_->topology(), members);
  WEFT_CHECK(part.validate());
  auto view = std::make_unique<cost::MachineView>(std::move(part), machine_->costs(), machine_->caches());
  return parts_.emplace(std::pair(group, first), std::move(view)).first->second.get();
}

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
                 [&](Rank first) { return of_group(collective, group, first, bytes); });
}

Result<Traffic::Cost> Traffic::operator()(Collective collective, Group group, const Experts& experts) {
  if (group.ranks <= 1 || experts.tokens <= 0) return Cost{};
  return slowest(known_experts_, std::tuple(collective, group, experts, estimate_only_), group,
                 [&](Rank first) { return of_group(collective, group, first, experts); });
}

const tune::nccl::System* Traffic::system_of(const cost::MachineView& view, Group group, Rank first) {
  const auto key = std::pair(group, first);
  if (!systems_.contains(key))
    if (auto system = tune::nccl::system_of(view, group.ranks)) systems_.emplace(key, std::move(*system));
  const auto known = systems_.find(key);
  return known == systems_.end() ? nullptr : &known->second;
}

Result<Traffic::Cost> Traffic::of_group(Collective collective, Group group, Rank first, Bytes bytes) {
  WEFT_TRY(const cost::MachineView* view, part_for(group, first));
  const Bytes unit = schedule::message_parts(collective, group.ranks);
  const schedule::Task task{.collective = collective,
                            .ranks = group.ranks,
                            .ranks_per_node = view->ranks_per_node(group.ranks),
                            .elements = std::max<Bytes>(1, bytes / kElement / unit) * unit,
                            .element_bytes = kElement};
  predict::Query query{.question = {.task = task, .can = sim::flow_capabilities(view->topology())}};
  if (as_nccl_) query.nccl = system_of(*view, group, first);
  // What NCCL's tuner does not model is weft's own choice.
  if (query.nccl != nullptr && !tune::nccl::choose(*view, *query.nccl, query.question)) query.nccl = nullptr;
  return simulated(*view, std::move(query));
}

Result<Traffic::Cost> Traffic::of_group(Collective collective, Group group, Rank first, const Experts& experts) {
  WEFT_TRY(const cost::MachineView* part, part_for(group, first));
  const Rank per_node = part->ranks_per_node(group.ranks);
  WEFT_TRY(auto routes, schedule::draw({.ranks = group.ranks,
                                        .ranks_per_node = per_node,
                                        .tokens = experts.tokens,
                                        .per_token = experts.per_token,
                                        .experts = experts.experts,
                                        .copies = experts.copies}));
  WEFT_TRY(auto costs,
           cost::expert_costs(*part, collective, group.ranks, {.copies = experts.copies, .experts = experts.experts}));
  const cost::MachineView view(part->topology(), std::move(costs), part->caches());
  const Bytes travelling = experts.tokens * (experts.copies == schedule::Copies::kPerExpert ? experts.per_token : 1);
  const Bytes groups = routes->tokens_per_rank(),
              each = (travelling * experts.token_bytes / kElement + groups - 1) / groups * groups;
  const schedule::Task task{.collective = collective,
                            .ranks = group.ranks,
                            .ranks_per_node = per_node,
                            .elements = each * group.ranks,
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
