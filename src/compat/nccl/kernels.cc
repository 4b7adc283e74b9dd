#include "compat/nccl/kernels.h"

#include <algorithm>

#include "api/stream/exchange.h"
#include "api/stream/path.h"
#include "api/stream/start.h"
#include "base/env.h"
#include "base/mutex.h"
#include "compat/nccl/same_calls.h"
#include "net/link/key.h"

namespace weft::compat::nccl {
namespace {

// The place where rank 0 leaves what all ranks of this process share.
struct RecordPool {
  Mutex mutex;
  std::map<std::uint64_t, Result<stream::Path>> groups WEFT_GUARDED_BY(mutex);
  std::uint64_t next = 0;  // likewise
};
RecordPool& pool() {
  static RecordPool all;
  return all;
}

std::uint64_t new_key() {
  const MutexLock guard(pool().mutex);
  return pool().next++;
}

Result<stream::Path> open_here(std::span<const int> devices, const env::Settings& settings) {
  WEFT_TRY(auto used, runtime());
  return stream::choose_path(std::move(used), devices, true, settings.device_path,
                             std::chrono::milliseconds(settings.timeout_ms));
}

void add_transfer(std::vector<stream::Exchange>& exchanges, const Operation& o) {
  stream::Member* const member = o.comm->kernels.get();
  auto found = std::ranges::find(exchanges, member, &stream::Exchange::member);
  if (found == exchanges.end()) found = exchanges.insert(found, {.member = member, .stream = o.stream});
  found->transfers.push_back(*o.transfer);
}

// The location that ranks exchange.
struct Whereabouts {
  net::cuda::Identity identity;
  std::uint64_t process, key;
  std::int64_t device;
  std::uint64_t forces_host, forces_kernels;
};

Status gather(Communicator& comm, std::span<const std::byte> own, std::span<std::byte> all) {
  return comm.all_gather(std::span(reinterpret_cast<const std::uint8_t*>(own.data()), own.size()),
                         std::span(reinterpret_cast<std::uint8_t*>(all.data()), all.size()));
}

stream::Gather by_host(Communicator& comm) {
  return [&comm](std::span<const std::byte> own, std::span<std::byte> all) { return gather(comm, own, all); };
}

// One group for all ranks of this process: rank 0 opens it, and all take it from the pool.
Result<std::unique_ptr<stream::Member>> open_together(Communicator& comm, std::uint64_t key,
                                                      std::span<const int> devices, const env::Settings& settings) {
  if (comm.rank() == 0) {
    auto path = open_here(devices, settings);
    const MutexLock guard(pool().mutex);
    pool().groups.emplace(key, std::move(path));
  }
  const Status there = comm.barrier();
  Result<stream::Path> path = failure(Code::kAborted, Blame::kCommunicator, "rank 0 gave up meanwhile");
  if (there) {
    const MutexLock guard(pool().mutex);
    if (const auto found = pool().groups.find(key); found != pool().groups.end()) path = found->second;
  }
  const Status taken = there ? comm.barrier() : there;
  if (comm.rank() == 0) {
    const MutexLock guard(pool().mutex);
    pool().groups.erase(key);
  }
  WEFT_CHECK(taken);
  if (!path) return tl::make_unexpected(path.error());
  return path->group ? std::make_unique<stream::Member>(path->group, comm.rank()) : nullptr;
}

// One group for ranks that are a process each.
Result<std::unique_ptr<stream::Member>> join_others(Communicator& comm, int device_number,
                                                    const env::Settings& settings) {
  WEFT_TRY(auto used, runtime());
  WEFT_TRY(const auto back, stream::OnDevice::use(*used->device, device_number));
  auto group = stream::Group::join(std::move(used), comm.rank(), comm.ranks(), by_host(comm),
                                   std::chrono::milliseconds(settings.timeout_ms));
  if (group) return std::make_unique<stream::Member>(*group, comm.rank());
  if (group.error().code == Code::kUnsupported) return nullptr;
  return tl::make_unexpected(group.error());
}

}  // namespace

std::uint64_t this_process() {
  static const std::uint64_t number = [] {
    std::array<std::uint8_t, 8> random;
    net::link::fill_random(random);
    return std::bit_cast<std::uint64_t>(random);
  }();
  return number;
}

Result<std::unique_ptr<stream::Member>> kernels_of(Communicator& comm, int device_number) {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(net::cuda::Device* const used, device());
  WEFT_TRY(const net::cuda::Identity identity, used->identity(device_number));
  const Whereabouts own{identity,
                        this_process(),
                        comm.rank() == 0 ? new_key() : 0,
                        device_number,
                        settings.device_path == "host",
                        settings.device_path == "kernels"};
  std::vector<Whereabouts> all(static_cast<std::size_t>(comm.ranks()));
  WEFT_CHECK(gather(comm, std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
  stream::Places places;
  std::vector<int> devices;
  for (const Whereabouts& w : all) {
    places.devices.push_back(w.identity);
    places.processes.push_back(w.process);
    devices.push_back(static_cast<int>(w.device));
  }
  // Host memory if any rank forces it, kernels if all do: ranks whose settings differ still go one way.
  const bool host = std::ranges::any_of(all, &Whereabouts::forces_host);
  const bool kernels = std::ranges::all_of(all, &Whereabouts::forces_kernels);
  const stream::Way way = stream::choose_way(places, host ? "host" : kernels ? "kernels" : "").way;
  if (way == stream::Way::kHostMemory) return nullptr;
  if (way == stream::Way::kJoinedKernels) return join_others(comm, device_number, settings);
  return open_together(comm, all.front().key, devices, settings);
}

Status add_window(ncclComm& comm, void* memory, std::size_t bytes, bool symmetric) {
  const Status added =
      comm.kernels->group().add_window(comm.rank, memory, static_cast<Bytes>(bytes), symmetric, by_host(comm.comm));
  return !added && added.error().code == Code::kUnsupported ? Status() : added;
}

// Ends what waits for calls that will not come.
static Status compare_calls(std::span<const Operation> operations, std::span<const stream::Prepared* const> prepared) {
  std::size_t next = 0;
  for (const Operation& o : operations) {
    if (o.transfer) continue;
    const stream::Prepared& own = *prepared[next++];
    if (!o.comm->same_calls) continue;
    const Status same = o.comm->same_calls->add(o.comm->rank, o.request, own);
    if (same) continue;
    o.comm->note(same);
    WEFT_CHECK(o.comm->kernels->group().abort());
  }
  return {};
}

Status start_kernels(std::span<const Operation> operations) {
  std::vector<stream::Call> calls;
  std::vector<const stream::Prepared*> prepared(operations.size());
  std::vector<stream::Exchange> exchanges;
  for (const Operation& o : operations) {
    if (o.transfer) {
      add_transfer(exchanges, o);
      continue;
    }
    calls.push_back({.member = o.comm->kernels.get(),
                     .request = o.request,
                     .stream = o.stream,
                     .prepared = &prepared[calls.size()]});
    if (!o.sum) continue;
    calls.back().request.scalar = o.sum->scalar;
    calls.back().scalar = o.sum->in_device;
  }
  WEFT_CHECK(stream::start(calls));
  WEFT_CHECK(compare_calls(operations, prepared));
  return stream::start_exchanges(exchanges);
}

}  // namespace weft::compat::nccl
