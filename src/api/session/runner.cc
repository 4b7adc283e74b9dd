#include "api/session/runner.h"

#include <cstring>

#include "exec/kernels/divide.h"
#include "exec/recorder/json.h"
#include "plan/schedule/collective.h"

namespace weft::session {
namespace {

// Equal only if all calls so far were: what differs once never becomes equal again.
constexpr std::uint64_t kInside = 0x66696e616c697a65;  // any number that no signature is likely to be

std::uint64_t chained(std::uint64_t chain, std::uint64_t signature) {
  const std::uint64_t mixed = (chain ^ signature) * 0x9e3779b97f4a7c15u;
  return mixed ^ mixed >> 29;
}

// "the 4 double": what is received from this rank, if that is one message.
std::string received_from(Rank peer, std::span<const Transfer> transfers) {
  const Transfer* only = nullptr;
  for (const Transfer& t : transfers) {
    if (t.peer != peer || t.direction != Transfer::Direction::kReceive) continue;
    if (only != nullptr) return "what";
    only = &t;
  }
  return only == nullptr ? "what" : fmt::format("the {} {}", only->count, schedule::name(only->type));
}

}  // namespace

void Runner::record(recorder::Recorder* recorder, std::string folder) {
  recorder_ = recorder;
  record_folder_ = std::move(folder);
  executor_->say_waits(recorder_ != nullptr ? &recorder_->waiting() : nullptr);
  executor_->trace_to(recorder_ != nullptr ? recorder_->trace() : nullptr);
}

void Runner::log_to(std::shared_ptr<const Log> log) {
  log_ = std::move(log);
  calls_ = log_->writes(LogLevel::kTrace, LogPart::kCall) ? log_.get() : nullptr;
}

void Runner::log_call(const Order& o) const {
  if (o.request == nullptr) return calls_->trace(LogPart::kCall, "#{}: {} transfers", o.number, o.transfers.size());
  calls_->trace(LogPart::kCall, "#{}: {} of {} {}, in {} out {}", o.number, schedule::name(o.request->collective),
                o.request->count, schedule::name(o.request->type), fmt::ptr(o.request->in), fmt::ptr(o.request->out));
}

Status Runner::intact() {
  if (failure_) return tl::make_unexpected(*failure_);
  if (executor_->aborted()) [[unlikely]]
    return fail(failure_of(executor_->rank(), Code::kAborted, Blame::kCommunicator, "rank {}: this rank has aborted",
                           executor_->rank()));
  return {};
}

Status Runner::fail(tl::unexpected<Error> error) {
  failure_ = error.value();
  return error;
}

// The error is what the caller must see; that its record could not be left as well adds nothing to it.
Status Runner::fail_and_record(tl::unexpected<Error> error) {
  log_->warn(LogPart::kFault, "the communicator is broken: {}", error.value().message);
  if (recorder_ != nullptr && !record_folder_.empty())
    (void)recorder::leave_record(record_folder_, recorder_->snapshot(), error.value().message);
  return fail(std::move(error));
}

void Runner::apply_timeout() {
  const auto timeout = time_is_kept_ ? kForEver : running_timeout_.value_or(timeout_);
  executor_->set_timeout(timeout.count() > 0 ? timeout : kForEver);
}

Status Runner::set_timeout(std::chrono::milliseconds timeout) {
  WEFT_CHECK(check_timeout("set_timeout", timeout));
  timeout_ = timeout;
  apply_timeout();
  return {};
}

void Runner::keep_time(bool elsewhere) {
  time_is_kept_ = elsewhere;
  apply_timeout();
}

Status Runner::make_room(const Order& o) {
  if (!o.prepared->copies) [[likely]]
    return {};
  Status made = copies_.make_room(o.prepared->buffers);
  if (made) return made;
  made.error().blame = Blame::kCommunicator;  // the others are in the call
  made.error().message = fmt::format("a copy of memory that peers do not reach: {}", made.error().message);
  executor_->break_off(executor_->rank(), fabric::Cause::kFailed);
  return made;
}

bool Runner::begin(const Order& o) {
  running_ = true;
  const Prepared& prepared = *o.prepared;
  if (calls_ != nullptr) [[unlikely]]
    log_call(o);
  if (o.timeout) [[unlikely]] {
    running_timeout_ = o.timeout;
    apply_timeout();
  }
  if (recorder_ != nullptr)
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
  if (!finished && recorder_ != nullptr) recorder_->waits();
  return finished;
}

inline void Runner::complete(const Order& o) {
  const Bytes out_bytes = o.prepared->buffers.out_bytes;
  if (o.prepared->copies && out_bytes > 0) [[unlikely]]
    std::memcpy(o.request->out, copies_.out(o.prepared->buffers), static_cast<std::size_t>(out_bytes));
  if (!o.prepared->divides || out_bytes == 0) return;
  exec::divide(o.request->type, static_cast<std::byte*>(o.request->out), out_bytes, executor_->ranks());
}

// No operation runs any more: the communicator's own timeout counts again.
inline void Runner::stop_running() {
  running_ = false;
  if (running_timeout_) [[unlikely]] {
    running_timeout_.reset();
    apply_timeout();
  }
}

inline void Runner::note_end(const Order& o) {
  if (recorder_ != nullptr) recorder_->end(true);
  stop_running();
  complete(o);
}

Status Runner::run(const Order& order) {
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

Status Runner::finish(const Order& o, Status status) {
  if (status) {
    note_end(o);
    return status;
  }
  if (recorder_ != nullptr && running_) recorder_->end(false);
  stop_running();
  auto error = tl::make_unexpected(in_context(o, std::move(status.error())));
  if (error.value().blame != Blame::kOperation && !failure_) return fail_and_record(std::move(error));
  return error;
}

void Runner::explain(const Order& o, Error& error) const {
  const fabric::Disagreement found = executor_->disagreement();
  if (found.peer < 0) return;
  const Rank self = executor_->rank();
  error.ranks = {found.peer, self};
  if (o.request == nullptr) {
    error.field = "count or type";
    error.message = fmt::format(
        "what rank {} sent is of another count or type than {} that rank {} receives, or one of them called a "
        "collective",
        found.peer, received_from(found.peer, o.transfers), self);
    return;
  }
  if (!found.own || !found.peers) {
    error.message = fmt::format("rank {} and rank {} called different collectives, sizes or types{}", found.peer, self,
                                found.number == 0 ? "" : fmt::format(", in collective #{} or before", found.number));
    return;
  }
  error.calls = {text_of(*found.peers), text_of(*found.own)};
  error.field = differing_field(*found.peers, *found.own);
  if (error.field.empty()) error.field = schedule::uneven(o.request->collective) ? "counts" : "order of calls";
  error.message = fmt::format("rank {} called {}, rank {} called {} (collective #{} of the communicator): {} differs",
                              found.peer, error.calls[0], self, error.calls[1], found.number, error.field);
}

Error Runner::in_context(const Order& o, Error error) const {
  if (error.code == Code::kMismatch) explain(o, error);
  if (!o.name.empty()) {
    error.message = fmt::format("rank {}: {} #{}: {}", executor_->rank(), o.name, o.number, error.message);
    return error;
  }
  if (o.request == nullptr) {
    error.message = fmt::format("rank {}: exchange #{} ({} transfers): {}", executor_->rank(), o.number,
                                o.transfers.size(), error.message);
    return error;
  }
  if (within_ != Inside::kNothing) {
    error.message = fmt::format("rank {}: {} #{}: {}", executor_->rank(), name(within_), o.number, error.message);
    return error;
  }
  error.message =
      fmt::format("rank {}: {} #{} ({} elements, {}): {}", executor_->rank(), schedule::name(o.request->collective),
                  o.number, o.request->count, o.prepared->plan.algorithm->name, error.message);
  return error;
}

}  // namespace weft::session
