#include "api/session/session.h"

#include <cstring>

#include "api/session/description.h"
#include "api/session/program.h"
#include "exec/kernels/divide.h"
#include "exec/kernels/fold.h"
#include "exec/recorder/json.h"
#include "plan/schedule/element.h"

namespace weft::session {
namespace {

using schedule::Task;

// Counts of uneven collectives are not looked at. Neighbours in memory are not compared one after the other: compilers
// would load both at once, which has to wait where the caller has just stored them one by one.
bool same_shape(const Request& a, const Request& b) {
  return a.count == b.count && a.root == b.root && a.type == b.type && a.collective == b.collective &&
         a.reproducible == b.reproducible && a.op == b.op && a.channels == b.channels &&
         a.scalar.has_value() == b.scalar.has_value() && a.counts.empty() && a.receive_counts.empty() &&
         a.experts.empty() && a.algorithm == b.algorithm && a.protocol == b.protocol;
}

// Equal only if all calls so far were: what differs once never becomes equal again.
constexpr std::uint64_t kInside = 0x66696e616c697a65;  // any number that no signature is likely to be

std::uint64_t chained(std::uint64_t chain, std::uint64_t signature) {
  const std::uint64_t mixed = (chain ^ signature) * 0x9e3779b97f4a7c15u;
  return mixed ^ mixed >> 29;
}

std::vector<std::byte> input_of(const Request& r, const Prepared& prepared) {
  const auto* in = static_cast<const std::byte*>(r.in);
  return {in, in + prepared.buffers.in_bytes};
}

}  // namespace

Session::Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser)
    : Session(std::move(executor), ranks_per_node, std::move(chooser), {}) {}

Session::Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser, Streams streams)
    : executor_(std::move(executor)),
      timeout_(executor_ ? executor_->timeout() : decltype(timeout_){}),  // tests of the guard have none
      ranks_per_node_(ranks_per_node),
      chooser_(std::move(chooser)),
      streams_(streams) {}

Session::~Session() {
  if (recorder_ && recorder_->trace() != nullptr) recorder_->trace()->write_rails();  // while the connections are open
}

void Session::record(std::unique_ptr<recorder::Recorder> recorder, std::string folder) {
  recorder_ = std::move(recorder);
  record_folder_ = std::move(folder);
  executor_->say_waits(recorder_ ? &recorder_->waiting() : nullptr);
  executor_->trace_to(recorder_ ? recorder_->trace() : nullptr);
}

namespace {

// Bytes of the message per element of a request's count. Uneven requests count otherwise, barriers nothing.
std::int32_t unit_of(const Request& r, Rank ranks) {
  if (schedule::uneven(r.collective) || r.collective == Collective::kBarrier) return 0;
  return static_cast<std::int32_t>(size_of(r.type) * schedule::message_parts(r.collective, ranks));
}

}  // namespace

std::uint32_t Session::label_of(const Request& r, const schedule::Plan& plan) {
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

std::uint32_t Session::exchange_label() {
  return recorder_ ? recorder_->label({.collective = "exchange", .channels = 1, .root = -1}) : 0;
}

void Session::log_to(std::shared_ptr<const Log> log) {
  log_ = std::move(log);
  calls_ = log_->writes(LogLevel::kTrace, LogPart::kCall) ? log_.get() : nullptr;
}

void Session::log_call(const Order& o) const {
  if (o.request == nullptr) return calls_->trace(LogPart::kCall, "#{}: {} transfers", o.number, o.transfers.size());
  calls_->trace(LogPart::kCall, "#{}: {} of {} {}, in {} out {}", o.number, schedule::name(o.request->collective),
                o.request->count, schedule::name(o.request->type), fmt::ptr(o.request->in), fmt::ptr(o.request->out));
}

// The error is what the caller must see; that its record could not be left as well adds nothing to it.
void Session::leave_record(const Error& error) const {
  log_->warn(LogPart::kFault, "the communicator is broken: {}", error.message);
  if (recorder_ && !record_folder_.empty())
    (void)recorder::leave_record(record_folder_, recorder_->snapshot(), error.message);
}

inline const Prepared* Session::again(const Request& r) {
  const bool same = last_ != nullptr && last_->is_even && !last_->access.adopted && r.in == last_->request.in &&
                    r.out == last_->request.out && same_shape(r, last_->request);
  if (!same || last_->ballot->calls + 1 == last_->ballot->decides) return nullptr;
  ++last_->ballot->calls;
  return last_->prepared.get();
}

Result<const Prepared*> Session::prepare(const Request& r) {
  Ballot before;
  Ballot* counted = nullptr;
  auto prepared = prepare(r, counted, before);
  if (!prepared && counted != nullptr) {  // a call that is refused is none
    before.votes = counted->votes;
    *counted = before;
    adopted_ = {};
  }
  return prepared;
}

std::shared_ptr<const Prepared>& Session::prepared_for(const Request& r, std::string key) {
  auto& place = prepared_[key];
  if (place || schedule::alike(r.collective)) return place;
  if (varying_.size() == kKeptVarying) {  // who runs or waits keeps its own reference
    prepared_.erase(varying_.front());
    varying_.pop_front();
  }
  varying_.push_back(std::move(key));
  return place;
}

Result<const Prepared*> Session::prepare(const Request& r, Ballot*& counted, Ballot& before) {
  Access access;
  const auto count = [&](Ballot& ballot, const Buffers& b) {
    if (counted != nullptr) return;
    before = ballot;
    access = count_call(ballot, peers_reach(r, b));
    counted = &ballot;
  };
  for (KnownRequest& known : known_requests_) {
    if (!known.prepared || !known.is_even || !same_shape(r, known.request)) continue;
    const Prepared& p = *known.prepared;
    const bool other = r.in != known.request.in || r.out != known.request.out;
    if (other) WEFT_CHECK(check_buffers(r, *p.plan.algorithm, p.buffers));
    count(*known.ballot, p.buffers);
    if (access != known.access) continue;
    if (other && !p.copies && shift_of(r, p.buffers.in_bytes, p.buffers.out_bytes) != p.shift) continue;
    known.request.in = r.in, known.request.out = r.out;
    last_ = &known;
    return known.prepared.get();
  }

  WEFT_CHECK(check_request(r, executor_->rank(), executor_->ranks()));
  const Task task = task_of(r, executor_->rank(), executor_->ranks(), ranks_per_node_);
  const schedule::Layout layout = layout_of(task);
  const Buffers b = buffers_of(layout, executor_->rank());
  Ballot& ballot = ballot_of(r);
  count(ballot, b);
  auto& prepared =
      prepared_for(r, cache_key_of(r, access.direct, access.reached, shift_of(r, b.in_bytes, b.out_bytes)));
  if (!prepared) {
    WEFT_TRY(prepared, plan(r, task, layout, access));
  }
  WEFT_CHECK(check_buffers(r, *prepared->plan.algorithm, prepared->buffers));
  known_requests_.resize(kKnownRequests);  // only now: groups may be many, and not all call something
  last_ = &known_requests_[requests_prepared_++ % kKnownRequests];
  *last_ = {.request = r,
            .is_even = schedule::alike(r.collective),
            .access = access,
            .ballot = &ballot,
            .prepared = prepared};
  last_->request.counts = last_->request.receive_counts = {};  // the caller's; not kept
  last_->request.experts = {};
  return prepared.get();
}

Result<std::shared_ptr<const Prepared>> Session::plan(const Request& request, const Task& task,
                                                      const schedule::Layout& layout, const Access& access) {
  auto prepared = std::make_shared<Prepared>();
  WEFT_TRY(prepared->plan, chooser_(chosen_for(task), request, executor_->capabilities(), access.direct));
  const schedule::Algorithm& algorithm = *prepared->plan.algorithm;
  const Buffers b = prepared->buffers = buffers_of(layout, executor_->rank());
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
      .streams_scratch = streams_.for_peers && prepared->plan.streams_scratch(),
      .description = describe(request, prepared->plan),
      .signature = signature_of(request, access.direct && touches_memory, prepared->plan, ranks_per_node_)};
  prepared->label = label_of(request, prepared->plan);
  prepared->brief = b.in_bytes + b.out_bytes <= kBriefBytes;
  return prepared;
}

bool Session::begin(const Order& o) {
  running_ = true;
  const Prepared& prepared = *o.prepared;
  if (calls_ != nullptr) [[unlikely]]
    log_call(o);
  if (o.timeout) [[unlikely]] {
    running_timeout_ = o.timeout;
    apply_timeout();
  }
  if (recorder_)
    recorder_->begin(o.number, o.request != nullptr ? o.request->count : o.transfers.size(), prepared.label,
                     prepared.brief);
  fabric::Call call = prepared.call;
  if (o.request != nullptr) {
    call.in = o.input.empty() ? static_cast<const std::byte*>(o.request->in) : o.input.data();
    call.out = static_cast<std::byte*>(o.request->out);
    if (o.adopted != nullptr) [[unlikely]] {
      if (o.adopted->in) call.in = o.adopted->in->shared(call.in);
      if (o.adopted->out) call.out = o.adopted->out->shared(call.out);
    }
    if (prepared.copies) [[unlikely]] {
      if (prepared.buffers.in_bytes > 0)
        std::memcpy(copies_.in(), call.in, static_cast<std::size_t>(prepared.buffers.in_bytes));
      call.in = copies_.in();
      call.out = copies_.out(prepared.buffers);
    }
    if (within_ != Inside::kNothing) [[unlikely]] {
      chain_ = chained(chain_, kInside + static_cast<std::uint64_t>(within_) + (within_count_ << 8));
      call.description = inside(within_, within_count_, call.description);
    }
    call.signature = chain_ = chained(chain_, prepared.call.signature);
    if (prepared.op == ReduceOp::kPremulSum) call.scale = o.request->scalar;
  } else {
    call.out = static_cast<std::byte*>(o.transfers.front().data);
    call.in = call.out;
  }
  const bool finished = executor_->start(prepared.program, call);
  if (!finished && recorder_) recorder_->waits();
  return finished;
}

inline void Session::complete(const Order& o) {
  const Bytes out_bytes = o.prepared->buffers.out_bytes;
  if (o.prepared->copies && out_bytes > 0) [[unlikely]]
    std::memcpy(o.request->out, copies_.out(o.prepared->buffers), static_cast<std::size_t>(out_bytes));
  if (!o.prepared->divides || out_bytes == 0) return;
  exec::divide(o.request->type, static_cast<std::byte*>(o.request->out), out_bytes, executor_->ranks());
}

void Session::apply_timeout() {
  const auto timeout = waits_for_tag_ ? kForEver : running_timeout_.value_or(timeout_);
  executor_->set_timeout(timeout.count() > 0 ? timeout : kForEver);
}

Status Session::set_timeout(std::chrono::milliseconds timeout) {
  WEFT_CHECK(check_timeout("set_timeout", timeout));
  timeout_ = timeout;
  apply_timeout();
  return {};
}

// No operation runs any more: the communicator's own timeout counts again.
inline void Session::stop_running() {
  running_ = false;
  if (running_timeout_) [[unlikely]] {
    running_timeout_.reset();
    apply_timeout();
  }
}

inline void Session::note_end(const Order& o) {
  if (recorder_) recorder_->end(true);
  stop_running();
  complete(o);
}

// A program's end, after which peers' memory that it has read must still be whole.
inline Status Session::ended(const Prepared& prepared) {
  return prepared.call.publishes ? executor_->still_whole() : Status();
}

Status Session::finish(const Order& o, Status status) {
  if (status) {
    note_end(o);
    return status;
  }
  if (recorder_ && running_) recorder_->end(false);
  stop_running();
  status = tl::make_unexpected(in_context(o, std::move(status.error())));
  if (status.error().blame != Blame::kOperation && !failure_) {
    failure_ = status.error();
    leave_record(status.error());
  }
  return status;
}

void Session::finish(Pending& p, Status status) {
  p.done = true;
  p.status = finish(p.order(), std::move(status));
  p.adopted = {};
  if (!p.fused) return;
  if (p.status) p.fused->copy_out();
  p.fused.reset();  // its memory serves the next
}

Status Session::run(const Request& request) {
  if (!queue_.empty()) {  // started operations come first
    WEFT_TRY(const auto pending, start(request));
    return wait(*pending);
  }
  if (!sound()) WEFT_CHECK(intact());
  const Prepared* prepared = again(request);
  if (prepared == nullptr) {
    WEFT_TRY(prepared, prepare(request));
  }
  Order order{.request = &request, .prepared = prepared, .number = operations_ + 1};
  // Not copied if there is none: the copy of what the caller has just stored would wait for that store.
  if (request.timeout) [[unlikely]] {
    WEFT_CHECK(check_timeout(schedule::name(request.collective), request.timeout));
    order.timeout = request.timeout;
  }
  AdoptedBuffers adopted;
  if (adopted_) [[unlikely]] {
    adopted = std::exchange(adopted_, {});
    order.adopted = &adopted;
  }
  ++operations_;
  if (request.in != request.out || prepared->may_be_in_place || prepared->copies) [[likely]]
    return run_now(order);
  const std::vector<std::byte> input = input_of(request, *prepared);
  order.input = input;
  return run_now(order);
}

Status Session::run_now(const Order& order) {
  if (Status room = make_room(order); !room) [[unlikely]]
    return finish(order, std::move(room));
  if (!begin(order)) {
    if (Status status = executor_->wait(); !status) [[unlikely]]
      return finish(order, std::move(status));
  }
  if (Status status = ended(*order.prepared); !status) [[unlikely]]
    return finish(order, std::move(status));
  note_end(order);
  return {};
}

Result<std::shared_ptr<Pending>> Session::start(const Request& request) {
  WEFT_CHECK(intact());
  WEFT_TRY(const Prepared* prepared, prepare(request));
  WEFT_CHECK(check_timeout(schedule::name(request.collective), request.timeout));
  Pending pending{.request = request, .prepared = prepared->shared_from_this(), .timeout = request.timeout};
  if (overwrites_input(request)) pending.input = input_of(request, *prepared);
  pending.adopted = std::exchange(adopted_, {});
  return enqueue(std::move(pending));
}

Result<std::shared_ptr<Pending>> Session::start(std::span<const Request> requests) {
  WEFT_CHECK(intact());
  const auto fused = Fused::of(requests, executor_->rank(), executor_->ranks(), fusion_);
  WEFT_TRY(const Prepared* prepared, prepare(fused->whole));
  WEFT_CHECK(check_timeout(schedule::name(fused->whole.collective), fused->whole.timeout));
  return enqueue({.request = fused->whole,
                  .prepared = prepared->shared_from_this(),
                  .timeout = fused->whole.timeout,
                  .fused = fused});
}

std::shared_ptr<Pending> Session::enqueue(Pending pending) {
  auto queued = std::make_shared<Pending>(std::move(pending));
  queued->number = ++operations_;
  if (queued->done) return queued;
  queue_.push_back(queued);
  poll(*queued);
  return queued;
}

void Session::poll(const Pending& wanted) {
  while (!queue_.empty() && !wanted.done) {
    Pending& front = *queue_.front();
    if (failure_) {
      finish(front, tl::make_unexpected(*failure_));
    } else {
      if (!running_) {
        if (Status room = make_room(front.order()); !room) {
          finish(front, std::move(room));
          queue_.pop_front();
          continue;
        }
        if (front.fused) front.fused->copy_in();
        begin(front.order());
      }
      Result<bool> moved = executor_->poll();
      if (moved && !*moved) return;
      finish(front, moved ? ended(*front.prepared) : Status(tl::make_unexpected(moved.error())));
    }
    queue_.pop_front();
  }
}

Status Session::wait(const Pending& wanted) {
  while (!wanted.done) {
    Pending& front = *queue_.front();
    if (failure_) {
      finish(front, tl::make_unexpected(*failure_));
    } else {
      Status status;
      if (!running_) status = make_room(front.order());
      if (status && !running_) {
        if (front.fused) front.fused->copy_in();
        begin(front.order());
      }
      if (status) status = executor_->wait();
      if (status) status = ended(*front.prepared);
      finish(front, std::move(status));
    }
    queue_.pop_front();
  }
  return wanted.status;
}

}  // namespace weft::session
