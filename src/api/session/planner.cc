#include "api/session/planner.h"

#include "api/session/description.h"
#include "api/session/program.h"
#include "exec/kernels/divide.h"
#include "exec/kernels/fold.h"
#include "plan/schedule/element.h"

namespace weft::session {

using schedule::Task;

namespace {

// Bytes of the message per element of a request's count. Uneven requests count otherwise, barriers nothing.
std::int32_t unit_of(const Request& r, Rank ranks) {
  if (schedule::uneven(r.collective) || r.collective == Collective::kBarrier) return 0;
  return static_cast<std::int32_t>(size_of(r.type) * schedule::message_parts(r.collective, ranks));
}

}  // namespace

std::uint32_t Planner::label_of(const Request& r, const schedule::Plan& plan) const {
  if (!recorder_) return 0;
  recorder::Label label{.channels = plan.channels,
                        .root = schedule::rooted(r.collective) ? r.root : -1,
                        .unit = unit_of(r, executor_->ranks())};
  schedule::name(r.collective).copy(label.collective, sizeof label.collective - 1);
  schedule::name(r.type).copy(label.type, sizeof label.type - 1);
  plan.algorithm->name.copy(label.algorithm, sizeof label.algorithm - 1);
  protocol::traits(plan.protocol).name.copy(label.protocol, sizeof label.protocol - 1);
  return recorder_->label(label);
}

Result<const Prepared*> Planner::prepare(const Request& r) {
  KnownShape* shape = cache_.find(r);
  const bool is_new = shape == nullptr, is_alike = schedule::alike(r.collective);
  KnownShape fresh;
  std::optional<Task> task;
  if (is_new) {
    WEFT_CHECK(check_request(r, executor_->rank(), executor_->ranks()));
    task = task_of(r, executor_->rank(), executor_->ranks(), ranks_per_node_);
    fresh.request = r;
    fresh.request.counts = fresh.request.receive_counts = {};
    fresh.request.experts = {};
    fresh.buffers = buffers_of(layout_of(*task), executor_->rank());
    fresh.ballot = &access_.ballot_of(r);
    shape = &fresh;
  }
  Ballot& ballot = *shape->ballot;
  const Ballot before = ballot;
  const auto prepared = plan_of(r, *shape, std::move(task));
  if (is_new && !fresh.plans.empty() && (is_alike || prepared))  // a call that is refused pushes no shape out
    shape = &cache_.add(is_alike ? PlanCache::Kind::kAlike : PlanCache::Kind::kVarying, std::move(fresh));
  if (!prepared) {
    access_.take_back(ballot, before);
    return prepared;
  }
  last_ = {.shape = shape,
           .in = r.in,
           .out = r.out,
           .is_alike = is_alike,
           .adopted = access_.has_adopted(),
           .prepared = *prepared};
  return prepared;
}

Result<const Prepared*> Planner::plan_of(const Request& r, KnownShape& shape, std::optional<Task> task) {
  const Buffers& b = shape.buffers;
  const Access access = access_.count(*shape.ballot, r, b);
  const std::optional<Bytes> shift = shift_of(r, b.in_bytes, b.out_bytes);
  const Prepared* prepared = shape.plan(access, shift);
  if (prepared == nullptr) {
    if (!task) task = task_of(r, executor_->rank(), executor_->ranks(), ranks_per_node_);
    WEFT_TRY(auto made, plan(r, *task, access));
    prepared = shape.plans.emplace_back(KnownShape::Plan{access, shift, std::move(made)}).prepared.get();
  }
  WEFT_CHECK(check_buffers(r, *prepared->plan.algorithm, b));
  return prepared;
}

Result<std::shared_ptr<const Prepared>> Planner::plan(const Request& request, const Task& task,
                                                      const Access& access) const {
  auto prepared = std::make_shared<Prepared>();
  WEFT_TRY(prepared->plan, chooser_(chosen_for(task), request, executor_->capabilities(), access.direct));
  const schedule::Algorithm& algorithm = *prepared->plan.algorithm;
  const Buffers b = prepared->buffers = buffers_of(layout_of(task), executor_->rank());
  const bool touches_memory = algorithm.needs.memory();
  prepared->copies = access.direct && !access.reached && touches_memory;
  if (!prepared->copies) prepared->shift = shift_of(request, b.in_bytes, b.out_bytes);
  const Bytes touched = 2 * task.ranks * task.elements * task.element_bytes;  // all ranks' inputs and outputs
  if (schedule::reduces(task.collective)) prepared->op = request.op;
  prepared->divides = exec::divides_at_the_end(request.type, prepared->op, task.ranks);
  prepared->may_be_in_place = schedule::may_be_in_place(task.collective);
  const std::optional<Scalar> scale = exec::scale_of(request.type, prepared->op, task.ranks, {});
  auto program = std::make_shared<schedule::Program>(schedule::lower(task, prepared->plan, executor_->rank()));
  if (prepared->shift && !scale && prepared->op != ReduceOp::kPremulSum)
    leave_out_idle_copies(*program, *prepared->shift);
  if (task.collective == Collective::kAllToAllV) {
    tag_pairs(*program, task, executor_->rank());
    // Load/store algorithms exchange signals and no messages.
    if (prepared->plan.protocol != protocol::Protocol::kDirect)
      add_empty_messages(*program, task, prepared->plan.protocol, executor_->rank());
  }
  prepared->program = std::move(program);
  prepared->call = {
      .protocol = prepared->plan.protocol,
      .fold = exec::fold_for(request.type, prepared->op,
                             touched > streams_.results_from ? exec::Stores::kStreamed : exec::Stores::kCached),
      .scale = scale,
      .reduction = exec::reduction_number(request.type, prepared->op),
      .publishes = touches_memory,
      .streams_slots = streams_.for_peers,
      .tries_slots = streams_.tried,
      .streams_scratch = streams_.for_peers && prepared->plan.streams_scratch(),
      .description = describe(request, prepared->plan),
      .signature = signature_of(request, access.direct && touches_memory, prepared->plan, ranks_per_node_)};
  prepared->label = label_of(request, prepared->plan);
  prepared->brief = b.in_bytes + b.out_bytes <= kBriefBytes;
  return prepared;
}

}  // namespace weft::session
