#include "session/session.h"

#include "exec/kernels/fold.h"

namespace weft::session {
namespace {

using schedule::Buffer;
using schedule::Task;

bool same_shape(const Request& a, const Request& b) {
  return a.collective == b.collective && a.count == b.count && a.type == b.type && a.op == b.op && a.root == b.root &&
         a.channels == b.channels && a.algorithm == b.algorithm && a.protocol == b.protocol;
}

bool per_rank_count(Collective c) { return c == Collective::kAllGather || c == Collective::kReduceScatter; }

std::string key_of(const Request& r, bool registered) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<int>(r.collective), r.count, static_cast<int>(r.type),
                     static_cast<int>(r.op), r.root, r.algorithm, r.protocol, r.channels, registered);
}

}  // namespace

Session::Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser, Bytes cache)
    : executor_(std::move(executor)), ranks_per_node_(ranks_per_node), chooser_(std::move(chooser)), cache_(cache) {}

Status Session::check(const Request& r) const {
  constexpr std::size_t kAddressSpace = std::size_t{1} << 47;  // what one process can have at all
  const auto name = schedule::name(r.collective);
  const std::size_t parts = per_rank_count(r.collective) ? static_cast<std::size_t>(executor_->ranks()) : 1;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(r.count, parts * static_cast<std::size_t>(size_of(r.type)), &bytes) ||
      bytes > kAddressSpace)
    return bad_input("{}: {} elements do not fit into memory", name, r.count);
  if (r.count > 0 && (r.in == nullptr || r.out == nullptr))
    return bad_input("{} of {} elements: null buffer", name, r.count);
  if (r.root < 0 || r.root >= executor_->ranks())
    return bad_input("{}: root {} of {} ranks", name, r.root, executor_->ranks());
  if (r.channels < 0) return bad_input("{}: {} channels", name, r.channels);
  return {};
}

Result<std::shared_ptr<const Prepared>> Session::prepare(const Request& r) {
  WEFT_CHECK(check(r));  // also of a known shape: buffers differ from call to call
  const Bytes part = static_cast<Bytes>(r.count) * size_of(r.type);
  const Bytes whole = part * (per_rank_count(r.collective) ? executor_->ranks() : 1);
  const bool registered = executor_->reaches(r.in, r.collective == Collective::kReduceScatter ? whole : part) &&
                          executor_->reaches(r.out, r.collective == Collective::kAllGather ? whole : part);
  if (last_ && registered == last_registered_ && same_shape(r, last_request_)) return last_;

  auto& known = prepared_[key_of(r, registered)];
  if (!known) {
    const Task task{.collective = r.collective,
                    .ranks = executor_->ranks(),
                    .root = r.root,
                    .ranks_per_node = ranks_per_node_,
                    .elements = whole / size_of(r.type),
                    .element_bytes = size_of(r.type)};
    WEFT_TRY(known, plan(r, task, registered));
  }
  last_request_ = r;
  last_registered_ = registered;
  last_ = known;
  return known;
}

Result<std::shared_ptr<const Prepared>> Session::plan(const Request& request, const Task& task, bool registered) {
  auto prepared = std::make_shared<Prepared>();
  WEFT_TRY(prepared->plan, chooser_(task, request, executor_->capabilities(), registered));
  auto program = std::make_shared<schedule::Program>(schedule::lower(task, prepared->plan, executor_->rank()));
  prepared->program = std::move(program);
  const Bytes touched = 2 * task.ranks * task.elements * task.element_bytes;  // all ranks' inputs and outputs
  prepared->fold =
      exec::fold_for(request.type, request.op, touched > cache_ ? exec::Stores::kStreamed : exec::Stores::kCached);
  // Whether memory is registered must agree only where peers touch it.
  prepared->signature =
      std::hash<std::string>{}(key_of(request, registered && prepared->plan.algorithm->needs.memory()) +
                               std::string(prepared->plan.algorithm->name));
  return prepared;
}

void Session::begin(const Pending& p) {
  running_ = true;
  const schedule::Plan& plan = p.prepared->plan;
  executor_->start(p.prepared->program, {.protocol = plan.protocol,
                                         .in = static_cast<const std::byte*>(p.request.in),
                                         .out = static_cast<std::byte*>(p.request.out),
                                         .fold = p.prepared->fold,
                                         .publishes = plan.algorithm->needs.memory(),
                                         .signature = p.prepared->signature});
}

Error Session::in_context(const Pending& p, Error error) const {
  error.message =
      fmt::format("rank {}: {} #{} ({} elements, {}): {}", executor_->rank(), schedule::name(p.request.collective),
                  p.number, p.request.count, p.prepared->plan.algorithm->name, error.message);
  return error;
}

void Session::finish(Pending& p, Status status) {
  running_ = false;
  p.done = true;
  if (!status) {
    status = tl::make_unexpected(in_context(p, status.error()));
    if (status.error().blame != Blame::kOperation) broken_ = status;
  }
  p.status = std::move(status);
}

Status Session::run(const Request& request) {
  if (!queue_.empty()) {  // started operations come first
    WEFT_TRY(const auto pending, start(request));
    return wait(*pending);
  }
  if (!broken_) return broken_;
  Pending now{.request = request};
  WEFT_TRY(now.prepared, prepare(request));
  now.number = ++operations_;
  begin(now);
  Status status = executor_->wait();
  if (!status) finish(now, std::move(status));
  running_ = false;
  return now.status;
}

Result<std::shared_ptr<Pending>> Session::start(const Request& request) {
  if (!broken_) return tl::make_unexpected(broken_.error());
  auto pending = std::make_shared<Pending>(Pending{.request = request});
  WEFT_TRY(pending->prepared, prepare(request));
  pending->number = ++operations_;
  queue_.push_back(pending);
  poll(*pending);
  return pending;
}

void Session::poll(const Pending& wanted) {
  while (!queue_.empty() && !wanted.done) {
    Pending& front = *queue_.front();
    if (!broken_) {
      finish(front, broken_);
    } else {
      if (!running_) begin(front);
      Result<bool> moved = executor_->poll();
      if (moved && !*moved) return;
      finish(front, moved ? Status{} : tl::make_unexpected(moved.error()));
    }
    queue_.pop_front();
  }
}

Status Session::wait(const Pending& wanted) {
  while (!wanted.done) {
    Pending& front = *queue_.front();
    if (!broken_) {
      finish(front, broken_);
    } else {
      if (!running_) begin(front);
      finish(front, executor_->wait());
    }
    queue_.pop_front();
  }
  return wanted.status;
}

}  // namespace weft::session
