#include "api/stream/member.h"

#include "api/session/request.h"
#include "api/stream/choice.h"
#include "exec/device/flatten.h"
#include "exec/kernels/divide.h"
#include "plan/schedule/element.h"

namespace weft::stream {

using schedule::Buffer;

Status Member::finish() { return done_ ? group_->device().finish(*done_) : Status(); }

Result<Prepared> Member::lower(const Request& request, const schedule::Task& task, const schedule::Plan& plan) const {
  const schedule::Layout layout = layout_of(task);
  Prepared made{
      .plan = plan, .program = schedule::lower(task, plan, rank_), .buffers = session::buffers_of(layout, rank_)};
  if (schedule::reduces(task.collective)) made.op = request.op;
  made.divides = exec::divides_at_the_end(request.type, made.op, task.ranks);
  made.signature = session::signature_of(request, true, plan, task.ranks_per_node);
  if (session::overwrites_input(request)) {
    WEFT_TRY(made.input, DeviceMemory::make(group_->runtime(), made.buffers.in_bytes));
  }
  return made;
}

// The program into device memory.
Status Member::place(Prepared& prepared) {
  WEFT_TRY(const auto image, exec::device::flatten(prepared.program, prepared.plan.protocol, group_->geometry()));
  const auto room = group_->program_room(rank_).subspan(program_room_used_);
  std::byte* to = room.data();
  if (image.size() > room.size()) {
    WEFT_TRY(prepared.own_image, DeviceMemory::make(group_->runtime(), static_cast<Bytes>(image.size())));
    to = prepared.own_image.data();
  } else {
    program_room_used_ += std::min((image.size() + 127) / 128 * 128, room.size());
  }
  prepared.image = to;
  return group_->device().copy_now(to, image.data(), static_cast<Bytes>(image.size()));
}

bool Member::reaches(const Request& request) const {
  if (group_->in_one_process()) return true;
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      break;
    default:  // some ranks have no input or no output, and could not know where the others' are
      return false;
  }
  if (group_->windows() == nullptr || session::overwrites_input(request)) return false;
  const schedule::Layout layout = layout_of(session::task_of(request, rank_, group_->ranks(), group_->ranks()));
  return group_->window_of(request.in, layout.buffer_bytes(Buffer::kIn, rank_)) >= 0 &&
         group_->window_of(request.out, layout.buffer_bytes(Buffer::kOut, rank_)) >= 0;
}

Result<const Prepared*> Member::prepare(const Request& request, By by) {
  WEFT_CHECK(session::check_request(request, rank_, group_->ranks()));
  protocol::Capabilities can = group_->capabilities();
  can.load_store = reaches(request);
  session::PlanKey key;
  key.set(request);
  key.add(static_cast<session::PlanKey::Word>(by) << 2 |
          static_cast<session::PlanKey::Word>(session::overwrites_input(request)) << 1 |
          static_cast<session::PlanKey::Word>(can.load_store));
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    WEFT_TRY(const OnDevice back, OnDevice::use(group_->device(), group_->device_of(rank_)));
    const schedule::Task task = session::task_of(request, rank_, group_->ranks(), group_->ranks());
    const schedule::Task nominal = session::chosen_for(task);
    WEFT_TRY(const schedule::Plan plan,
             by == By::kCopies ? choose_copies(nominal, request) : choose(nominal, request, can));
    WEFT_TRY(Prepared made, lower(request, task, plan));
    if (by == By::kKernels) WEFT_CHECK(place(made));
    found = prepared_.emplace(key, std::move(made)).first;
  }
  const Prepared& prepared = found->second;
  WEFT_CHECK(session::check_buffers(request, *prepared.plan.algorithm, prepared.buffers));
  if (prepared.buffers.in_bytes > 0) WEFT_CHECK(group_->device().check_pointer(request.in, "the input"));
  if (prepared.buffers.out_bytes > 0) WEFT_CHECK(group_->device().check_pointer(request.out, "the output"));
  last_ = &prepared;
  return last_;
}

exec::device::Frame Member::frame(const Prepared& prepared, const Request& request, const void* scalar) const {
  const auto scale = exec::scale_of(request.type, prepared.op, group_->ranks(), request.scalar);
  const bool in_windows = prepared.plan.algorithm->needs.memory() && !group_->in_one_process();
  return {.image = prepared.image,
          .regions = group_->table(rank_),
          .geometry = group_->geometry(),
          .rank = rank_,
          .crossing = static_cast<exec::device::Crossing>(prepared.plan.protocol),
          .op = prepared.op,
          .publishes = prepared.plan.algorithm->needs.memory(),
          .scales = scale.has_value(),
          .scale = scale.value_or(Scalar{}),
          .scale_at = prepared.op == ReduceOp::kPremulSum ? scalar : nullptr,
          .in = prepared.input.data() != nullptr ? prepared.input.data() : static_cast<const std::byte*>(request.in),
          .out = static_cast<std::byte*>(request.out),
          .windows = group_->windows(),
          .in_window = in_windows ? group_->window_of(request.in, prepared.buffers.in_bytes) : -1,
          .out_window = in_windows ? group_->window_of(request.out, prepared.buffers.out_bytes) : -1,
          .signature = prepared.signature,
          .timeout_ns = group_->timeout().count()};
}

Status Member::enter(Stream stream) {
  net::cuda::Device& device = group_->device();
  WEFT_TRY(const bool captured, device.captured(stream));
  // Also where the last one was in this stream: its handle may name another one since.
  if (done_ && !captured) return device.wait(*done_, stream);
  return {};
}

Status Member::enter(const Prepared& prepared, const Request& request, Stream stream) {
  WEFT_CHECK(enter(stream));
  if (prepared.input.data() == nullptr) return {};
  return group_->device().copy(prepared.input.data(), request.in, prepared.buffers.in_bytes, stream);
}

Status Member::leave(const Prepared& prepared, const Request& request, Stream stream) {
  if (prepared.divides && prepared.buffers.out_bytes > 0)
    WEFT_CHECK(group_->runtime()->kernels->divide(request.type, request.out, prepared.buffers.out_bytes,
                                                  group_->ranks(), stream));
  return leave(stream);
}

Status Member::leave(Stream stream) {
  net::cuda::Device& device = group_->device();
  WEFT_TRY(const bool captured, device.captured(stream));
  if (captured) return {};
  if (!done_) {
    WEFT_TRY(done_, device.make_event());
  }
  return device.record(*done_, stream);
}

}  // namespace weft::stream
