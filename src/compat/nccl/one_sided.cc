#include "compat/nccl/one_sided.h"

#include <thread>

#include "api/session/arguments.h"
#include "compat/nccl/kernels.h"
#include "compat/nccl/staging.h"
#include "compat/nccl/types.h"

namespace weft::compat::nccl {
namespace {

enum Tag : int { kWindowTag, kSignalTag, kDataTag };
constexpr std::chrono::microseconds kRest{50};

}  // namespace

Status OneSided::announce(const Window& window) {
  own_[window.number] = window;
  const Announcement here{window.number, reinterpret_cast<std::uintptr_t>(window.memory), window.bytes, this_process()};
  for (Rank peer = 0; peer < comm_.ranks; ++peer)
    if (peer != comm_.rank) WEFT_CHECK(send(here, peer, kWindowTag));
  return {};
}

Status OneSided::send(std::shared_ptr<void> memory, std::size_t bytes, Rank peer, int tag) {
  WEFT_TRY(Message message, comm_.comm.start_send(memory.get(), bytes, DataType::kUint8, peer, tag));
  const bool idle = sent_.empty();
  sent_.push_back({std::move(message), std::move(memory)});
  WEFT_CHECK(look_at_sent());
  if (idle && !sent_.empty()) comm_.issue([this] { comm_.note(look_again()); });
  return {};
}

Status OneSided::look_at_sent() {
  while (!sent_.empty()) {
    WEFT_TRY(const bool done, sent_.front().message.test());
    if (!done) break;
    sent_.pop_front();
  }
  return {};
}

// Messages move on only while somebody is inside a call of the communicator: this thread comes back to them.
Status OneSided::look_again() {
  if (const Status moved = look_at_sent(); !moved) {
    sent_.clear();
    return moved;
  }
  if (sent_.empty() || comm_.aborted) return {};
  std::this_thread::sleep_for(kRest);
  comm_.issue([this] { comm_.note(look_again()); });
  return {};
}

Status OneSided::finish() {
  for (; !sent_.empty(); sent_.pop_front())
    if (const auto done = sent_.front().message.wait(); !done) return tl::make_unexpected(done.error());
  return {};
}

Result<OneSided::Announcement> OneSided::window_of(Rank peer, std::uint64_t number) {
  if (peer == comm_.rank) {
    const Window& own = own_.at(number);
    return Announcement{number, reinterpret_cast<std::uintptr_t>(own.memory), own.bytes, this_process()};
  }
  for (;;) {
    if (const auto known = others_.find({peer, number}); known != others_.end()) return known->second;
    Announcement said{};
    if (const auto came = comm_.comm.receive(&said, sizeof said, DataType::kUint8, peer, kWindowTag); !came)
      return failure(came.error().code, came.error().blame, "ncclPutSignal: rank {} has not registered window {}: {}",
                     peer, number, came.error().message);
    others_[{peer, said.number}] = said;
  }
}

std::byte* OneSided::reached(const Put& put, const Announcement& there) const {
  if (there.process == this_process()) return reinterpret_cast<std::byte*>(there.address) + put.offset;
  if (comm_.kernels == nullptr) return nullptr;
  std::byte* const part = comm_.kernels->group().window_of_peer(own_.at(put.window).memory, put.to.peer);
  return part == nullptr ? nullptr : part + put.offset;
}

Status OneSided::send_along(const Put& put) {
  WEFT_TRY(auto copy, comm_.device.pinned(static_cast<Bytes>(put.bytes)));
  WEFT_CHECK(comm_.device.copy_now(copy.get(), put.data, static_cast<Bytes>(put.bytes)));
  WEFT_CHECK(send(Header{put.window, put.offset, put.bytes, put.to.signal, put.to.context}, put.to.peer, kSignalTag));
  return send(std::move(copy), put.bytes, put.to.peer, kDataTag);
}

Status OneSided::put(const Put& put) {
  WEFT_TRY(const auto back, stream::OnDevice::use(comm_.device, comm_.device_number));
  if (put.bytes > 0) {
    WEFT_TRY(const Announcement there, window_of(put.to.peer, put.window));
    if (put.offset > there.bytes || put.bytes > there.bytes - put.offset)
      return bad_input("ncclPutSignal: {} bytes at {} of rank {}'s window, which has {}", put.bytes, put.offset,
                       put.to.peer, there.bytes);
    std::byte* const at = reached(put, there);
    if (at == nullptr) return send_along(put);
    WEFT_CHECK(comm_.device.copy_now(at, put.data, static_cast<Bytes>(put.bytes)));
  }
  if (put.to.peer == comm_.rank) {
    ++signals_[put.to];
    return {};
  }
  return send(Header{0, 0, 0, put.to.signal, put.to.context}, put.to.peer, kSignalTag);
}

// The next signal of any rank, and what was put before it.
Status OneSided::take_one() {
  Header said{};
  WEFT_TRY(const Received came, comm_.comm.receive(&said, sizeof said, DataType::kUint8, kAnySource, kSignalTag));
  if (said.bytes > 0) {
    const auto window = own_.find(said.window);
    if (window == own_.end() || said.offset + said.bytes > window->second.bytes)
      return failure(Code::kMismatch, Blame::kCommunicator,
                     "rank {} puts {} bytes at {} of a window of rank {}'s that has {}", came.source, said.bytes,
                     said.offset, comm_.rank, window == own_.end() ? 0 : window->second.bytes);
    WEFT_TRY(const auto data, comm_.device.pinned(static_cast<Bytes>(said.bytes)));
    WEFT_CHECK(comm_.comm.receive(data.get(), said.bytes, DataType::kUint8, came.source, kDataTag));
    WEFT_CHECK(comm_.device.copy_now(static_cast<std::byte*>(window->second.memory) + said.offset, data.get(),
                                     static_cast<Bytes>(said.bytes)));
  }
  ++signals_[{came.source, static_cast<int>(said.signal), static_cast<int>(said.context)}];
  return {};
}

Status OneSided::wait(const SignalPlace& place, int count) {
  WEFT_TRY(const auto back, stream::OnDevice::use(comm_.device, comm_.device_number));
  std::int64_t& here = signals_[place];
  while (here < count)
    if (const Status came = take_one(); !came)
      return failure(came.error().code, Blame::kCommunicator,
                     "ncclWaitSignal: {} of {} signals {} in context {} of rank {} came: {}", here, count, place.signal,
                     place.context, place.peer, came.error().message);
  here -= count;
  return {};
}

namespace {

Status check_signal(const ncclComm& comm, const char* function, const SignalPlace& place) {
  if (place.peer < 0 || place.peer >= comm.ranks)
    return bad_input("{}: peer {} of {} ranks", function, place.peer, comm.ranks);
  if (place.signal < 0 || place.context < 0)
    return bad_input("{}: signal {} in context {}: both begin at 0", function, place.signal, place.context);
  return {};
}

ncclResult_t submit_put(const char* function, const Put& put, unsigned flags, ncclComm* comm, void* stream) {
  if (flags != 0) return refuse_in_group(ncclInvalidArgument, "{}: flags {}: there are none yet", function, flags);
  if (const Status fits = check_signal(*comm, function, put.to); !fits) return in_group(result_of(fits));
  return submit({.comm = comm, .stream = stream, .alone = [comm, put] { return comm->one_sided().put(put); }});
}

}  // namespace
}  // namespace weft::compat::nccl

using namespace weft::compat::nccl;

WEFT_NCCL_DEFINE(ncclResult_t, PutSignal,
                 (const void* data, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset,
                  int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream)) {
  if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclPutSignal: the communicator is null");
  const auto known = type_of(type);
  if (!known) return in_group(result_of(known));
  const auto registered = comm->window(window);
  if (!registered) return refuse_in_group(ncclInvalidArgument, "ncclPutSignal: this is no window of the communicator");
  const auto size = static_cast<std::size_t>(size_of(*known));
  if (count > weft::session::kAddressSpace / size)
    return refuse_in_group(ncclInvalidArgument, "ncclPutSignal: {} elements do not fit into memory", count);
  if (count > 0)
    if (const auto usable = comm->device.check_pointer(data, "the buffer that is put"); !usable)
      return in_group(result_of(usable));
  return submit_put("ncclPutSignal",
                    {.to = {peer, signal, context},
                     .data = data,
                     .bytes = count * size,
                     .window = registered->number,
                     .offset = offset},
                    flags, comm, stream);
}

WEFT_NCCL_DEFINE(ncclResult_t, Signal,
                 (int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream)) {
  if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclSignal: the communicator is null");
  return submit_put("ncclSignal", {.to = {peer, signal, context}}, flags, comm, stream);
}

WEFT_NCCL_DEFINE(ncclResult_t, WaitSignal,
                 (int count, ncclWaitSignalDesc_t* signals, ncclComm_t comm, cudaStream_t stream)) {
  if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclWaitSignal: the communicator is null");
  if (count < 1 || signals == nullptr)
    return refuse_in_group(ncclInvalidArgument, "ncclWaitSignal: {} descriptors", signals == nullptr ? 0 : count);
  const std::vector<ncclWaitSignalDesc_t> all(signals, signals + count);
  for (const ncclWaitSignalDesc_t& d : all) {
    if (const auto fits = check_signal(*comm, "ncclWaitSignal", {d.peer, d.sigIdx, d.ctx}); !fits)
      return in_group(result_of(fits));
    if (d.opCnt < 1) return refuse_in_group(ncclInvalidArgument, "ncclWaitSignal: {} signals", d.opCnt);
  }
  return submit({.comm = comm,
                 .stream = stream,
                 .alone = [comm, all]() -> weft::Status {
                   for (const ncclWaitSignalDesc_t& d : all)
                     WEFT_CHECK(comm->one_sided().wait({d.peer, d.sigIdx, d.ctx}, d.opCnt));
                   return {};
                 },
                 .waits = true});
}
