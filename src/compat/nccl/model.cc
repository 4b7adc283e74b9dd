#include "compat/nccl/model.h"

#include <map>
#include <mutex>
#include <tuple>

#include "api/chooser.h"
#include "api/connect.h"
#include "api/session/request.h"
#include "base/env.h"
#include "machine/detect/detect.h"
#include "plan/cost/estimate.h"

namespace weft::compat::nccl {
namespace {

constexpr std::string_view kFabric = "shm";

Request with_scalar(const Operation& operation) {
  Request request = operation.request;
  if (operation.sum) request.scalar = operation.sum->in_device != nullptr ? Scalar{} : operation.sum->scalar;
  return request;
}

schedule::Task task_of(const Request& request, const ncclComm& comm) {
  return session::chosen_for(session::task_of(request, comm.rank, comm.ranks, comm.ranks));
}

// The choice by the machine's cores. Made with the settings of the process, as the communicator's own.
Result<schedule::Plan> plan_on_cores(const Request& request, const ncclComm& comm) {
  WEFT_TRY(const env::Settings settings, env::read());
  const auto choose = api::chooser_of(comm.machine, settings);
  return choose(task_of(request, comm), request, api::capabilities_of(std::string(kFabric)), false);
}

// The machine as the model sees it, which nobody else looks at meanwhile: its routes cache. GPUs where collectives run
// on them, otherwise cores.
Result<const cost::MachineView*> modelled(const ncclComm& comm) {
  if (comm.kernels == nullptr || comm.device.host_reaches()) {
    static std::map<const cost::MachineView*, cost::MachineView> cores;
    const cost::MachineView& own = *comm.machine;
    return &cores.try_emplace(&own, own.topology(), own.costs(), own.caches()).first->second;
  }
  static const Result<std::unique_ptr<cost::MachineView>> gpus = []() -> Result<std::unique_ptr<cost::MachineView>> {
    WEFT_TRY(auto topology, topology::detect(topology::ThisHost(), std::nullopt));
    return std::make_unique<cost::MachineView>(std::move(topology),
                                               protocol::HopCosts::shipped(protocol::HopCosts::Endpoint::kGpu));
  }();
  if (!gpus) return tl::make_unexpected(gpus.error());
  return gpus->get();
}

// Of the plan that is made of it. What the model cannot do between these ranks it chooses itself.
Result<Duration> time_of(const cost::MachineView& machine, const Request& request, const ncclComm& comm,
                         const schedule::Plan* plan) {
  const schedule::Task task = task_of(request, comm);
  if (plan != nullptr)
    if (const auto known = cost::estimate(machine, task, *plan)) return known->total;
  WEFT_TRY(const auto chosen,
           tune::choose(machine, api::question_of(task, request, api::capabilities_of(std::string(kFabric)), false)));
  return chosen.estimate.total;
}

// A message as the exchange of all neighbours, which is what several of a group come to.
Request as_exchange(const Transfer& transfer) {
  return {.collective = Collective::kSendReceive, .count = transfer.count, .type = transfer.type};
}

}  // namespace

Result<schedule::Plan> plan_of(const Operation& operation) {
  const Request request = with_scalar(operation);
  const ncclComm& comm = *operation.comm;
  WEFT_CHECK(session::check_request(request, comm.rank, comm.ranks));
  if (comm.kernels == nullptr) return plan_on_cores(request, comm);
  WEFT_TRY(const stream::Prepared* const prepared, comm.kernels->prepare(request, stream::By::kKernels));
  return prepared->plan;
}

Result<Duration> estimate(std::span<const Operation> operations) {
  static std::mutex turns;
  std::map<const ncclComm*, Duration> in_turn;
  std::map<std::tuple<const ncclComm*, Rank, Transfer::Direction>, Duration> messages;
  for (const Operation& o : operations) {
    if (o.comm->ranks == 1) continue;
    if (o.transfer && o.transfer->peer == o.comm->rank) continue;
    const Request request = o.transfer ? as_exchange(*o.transfer) : with_scalar(o);
    std::optional<schedule::Plan> plan;
    if (!o.transfer) {
      WEFT_TRY(plan, plan_of(o));
    }
    const std::lock_guard guard(turns);
    WEFT_TRY(const cost::MachineView* const machine, modelled(*o.comm));
    WEFT_TRY(const Duration time, time_of(*machine, request, *o.comm, plan ? &*plan : nullptr));
    Duration& sum = o.transfer ? messages[{o.comm, o.transfer->peer, o.transfer->direction}] : in_turn[o.comm];
    sum = sum + time;
  }
  std::map<const ncclComm*, Duration> longest;
  for (const auto& [ends, time] : messages) {
    Duration& most = longest[std::get<0>(ends)];
    most = std::max(most, time);
  }
  for (const auto& [comm, time] : longest) in_turn[comm] = in_turn[comm] + time;
  Duration all;
  for (const auto& [comm, time] : in_turn) all = std::max(all, time);
  return all;
}

}  // namespace weft::compat::nccl
