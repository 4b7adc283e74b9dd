#include "compat/nccl/staging.h"

#include "compat/nccl/types.h"

namespace weft::compat::nccl {
namespace {

// One operation's memory as the host's communicator sees it, kept until the operation has ended.
struct Staged {
  Operation operation;
  std::shared_ptr<void> in, out, scalar;  // null: the caller's own

  void* data() const { return operation.transfer->data; }
};

bool sends(const Operation& o) { return o.transfer && o.transfer->direction == Transfer::Direction::kSend; }

const void* source(const Operation& o) {
  if (o.transfer) return sends(o) ? o.transfer->data : nullptr;
  return o.in_bytes > 0 ? o.request.in : nullptr;
}
void* target(const Operation& o) {
  if (o.transfer) return sends(o) ? nullptr : o.transfer->data;
  return o.out_bytes > 0 ? o.request.out : nullptr;
}

Status check(const Operation& o) {
  if (o.in_bytes > 0) WEFT_CHECK(o.comm->device.check_pointer(source(o), "the buffer that is sent"));
  if (o.out_bytes > 0) WEFT_CHECK(o.comm->device.check_pointer(target(o), "the buffer that receives"));
  return {};
}

// Copies to pinned memory before, or nothing where the host reaches the device's.
Status copy_in(Staged& s) {
  net::cuda::Device& device = s.operation.comm->device;
  if (s.operation.in_bytes > 0) {
    WEFT_TRY(s.in, device.pinned(static_cast<Bytes>(s.operation.in_bytes)));
    WEFT_CHECK(
        device.copy(s.in.get(), source(s.operation), static_cast<Bytes>(s.operation.in_bytes), s.operation.stream));
  }
  if (s.operation.out_bytes > 0) {
    WEFT_TRY(s.out, device.pinned(static_cast<Bytes>(s.operation.out_bytes)));
  }
  return {};
}

// Scalars in device memory are read when the stream is there.
Status copy_scalar(Staged& s) {
  if (!s.operation.sum) return {};
  const Premultiplied& sum = *s.operation.sum;
  s.operation.request.scalar = sum.scalar;
  if (sum.in_device == nullptr) return {};
  net::cuda::Device& device = s.operation.comm->device;
  WEFT_TRY(s.scalar, device.pinned(8));
  return device.copy(s.scalar.get(), sum.in_device, size_of(sum.type), s.operation.stream);
}

Request request_of(const Staged& s) {
  Request r = s.operation.request;
  if (s.in) r.in = s.in.get();
  if (s.out) r.out = s.out.get();
  if (s.scalar) r.scalar = scalar_from(r.type, s.scalar.get());
  return r;
}
Transfer transfer_of(const Staged& s) {
  Transfer t = *s.operation.transfer;
  if (s.in) t.data = s.in.get();
  if (s.out) t.data = s.out.get();
  return t;
}

Status carry_out(ncclComm& comm, const std::vector<Staged>& all) {
  if (!all.front().operation.transfer) return comm.comm.run(request_of(all.front()));
  std::vector<Transfer> transfers;
  for (const Staged& s : all) transfers.push_back(transfer_of(s));
  return comm.comm.exchange(transfers);
}

}  // namespace

Status enqueue(std::span<const Operation> together) {
  ncclComm& comm = *together.front().comm;
  const net::cuda::Stream stream = together.front().stream;
  auto all = std::make_shared<std::vector<Staged>>();
  for (const Operation& o : together) {
    WEFT_CHECK(check(o));
    all->push_back({o, nullptr, nullptr, nullptr});
  }
  for (Staged& s : *all) {
    WEFT_CHECK(copy_scalar(s));
    if (!comm.device.host_reaches()) WEFT_CHECK(copy_in(s));
  }
  WEFT_TRY(auto made, comm.device.hand_over(stream));
  comm.issue([&comm, all, baton = std::shared_ptr<net::cuda::Baton>(std::move(made))] {
    const Status reached = baton->wait_until_reached([&comm] { return comm.aborted.load(); });
    comm.note(reached ? carry_out(comm, *all) : reached);
    if (!reached && !comm.aborted) comm.comm.abort();  // the device failed here: peers need not wait in vain
    baton->finish();
  });
  for (const Staged& s : *all)
    if (s.out)
      WEFT_CHECK(comm.device.copy(target(s.operation), s.out.get(), static_cast<Bytes>(s.operation.out_bytes), stream));
  if (!comm.device.host_reaches()) {  // what copies use must outlive them
    WEFT_TRY(auto after, comm.device.hand_over(stream));
    comm.issue([&comm, all, baton = std::shared_ptr<net::cuda::Baton>(std::move(after))] {
      comm.note(baton->wait_until_reached([&comm] { return comm.aborted.load(); }));
      baton->finish();
    });
  }
  return {};
}

}  // namespace weft::compat::nccl
