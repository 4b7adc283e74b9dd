#include "compat/nccl/staging.h"

#include "compat/nccl/types.h"

namespace weft::compat::nccl {

// One operation's memory as the host's communicator sees it, kept until the operation has ended.
struct Staged {
  Operation operation;
  std::shared_ptr<void> in, out, scalar;  // null: the caller's own
};

namespace {

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

// Nothing where the host reaches the device's memory.
Status take_memory(Staged& s) {
  const Operation& o = s.operation;
  net::cuda::Device& device = o.comm->device;
  if (o.sum && o.sum->in_device != nullptr) {
    WEFT_TRY(s.scalar, device.pinned(8));
  }
  if (device.host_reaches()) return {};
  if (o.in_bytes > 0) {
    WEFT_TRY(s.in, device.pinned(static_cast<Bytes>(o.in_bytes)));
  }
  if (o.out_bytes > 0) {
    WEFT_TRY(s.out, device.pinned(static_cast<Bytes>(o.out_bytes)));
  }
  return {};
}

// Scalars in device memory are read when the stream is there.
Status copy_in(Staged& s) {
  Operation& o = s.operation;
  net::cuda::Device& device = o.comm->device;
  if (o.sum) o.request.scalar = o.sum->scalar;
  if (s.scalar) WEFT_CHECK(device.copy(s.scalar.get(), o.sum->in_device, size_of(o.sum->type), o.stream));
  if (s.in) WEFT_CHECK(device.copy(s.in.get(), source(o), static_cast<Bytes>(o.in_bytes), o.stream));
  return {};
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
  if (!all.front().operation.transfer) {
    std::vector<Request> requests;
    for (const Staged& s : all) requests.push_back(request_of(s));
    return requests.size() == 1 ? comm.comm.run(requests.front()) : comm.comm.run(std::span<const Request>(requests));
  }
  std::vector<Transfer> transfers;
  for (const Staged& s : all) transfers.push_back(transfer_of(s));
  return comm.comm.exchange(transfers);
}

}  // namespace

Result<StagedOperations> stage(std::span<const Operation> together) {
  auto all = std::make_shared<std::vector<Staged>>();
  for (const Operation& o : together) {
    WEFT_CHECK(check(o));
    all->push_back({o, nullptr, nullptr, nullptr});
    WEFT_CHECK(take_memory(all->back()));
  }
  return all;
}

Status enqueue(ncclComm& comm, net::cuda::Stream stream, std::function<Status()> work) {
  WEFT_TRY(auto made, comm.device.hand_over(stream));
  comm.issue([&comm, work = std::move(work), gate = std::shared_ptr<net::cuda::StreamGate>(std::move(made))] {
    const Status reached = gate->wait_until_reached([&comm] { return comm.aborted.load(); });
    comm.note(reached ? work() : reached);
    if (!reached && !comm.aborted) comm.comm.abort();  // the device failed here: peers need not wait in vain
    gate->finish();
  });
  return {};
}

Status enqueue(const StagedOperations& all) {
  ncclComm& comm = *all->front().operation.comm;
  const net::cuda::Stream stream = all->front().operation.stream;
  for (Staged& s : *all) WEFT_CHECK(copy_in(s));
  WEFT_CHECK(enqueue(comm, stream, [&comm, all] { return carry_out(comm, *all); }));
  for (const Staged& s : *all)
    if (s.out)
      WEFT_CHECK(comm.device.copy(target(s.operation), s.out.get(), static_cast<Bytes>(s.operation.out_bytes), stream));
  if (!comm.device.host_reaches()) {  // what copies use must outlive them
    WEFT_TRY(auto after, comm.device.hand_over(stream));
    comm.issue([&comm, all, gate = std::shared_ptr<net::cuda::StreamGate>(std::move(after))] {
      comm.note(gate->wait_until_reached([&comm] { return comm.aborted.load(); }));
      gate->finish();
    });
  }
  return {};
}

}  // namespace weft::compat::nccl
