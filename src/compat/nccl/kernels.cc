#include "compat/nccl/kernels.h"

#include <algorithm>

#include "base/env.h"
#include "net/bootstrap/key.h"
#include "stream/exchange.h"
#include "stream/path.h"
#include "stream/start.h"

namespace weft::compat::nccl {
namespace {

// Where rank 0 leaves what all ranks of this process share.
struct Shelf {
  std::mutex mutex;
  std::map<std::uint64_t, Result<stream::Path>> groups;  // guarded by mutex
  std::uint64_t next = 0;                                // likewise
};
Shelf& shelf() {
  static Shelf all;
  return all;
}

std::uint64_t this_process() {
  static const std::uint64_t number = [] {
    std::array<std::uint8_t, 8> random;
    net::bootstrap::fill_random(random);
    return std::bit_cast<std::uint64_t>(random);
  }();
  return number;
}

std::uint64_t new_key() {
  const std::lock_guard guard(shelf().mutex);
  return shelf().next++;
}

Result<stream::Path> choose(std::span<const int> devices) {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(auto used, runtime());
  return stream::choose_path(std::move(used), devices, true, settings.device_path,
                             std::chrono::milliseconds(settings.timeout_ms));
}

Status add_transfer(std::vector<stream::Exchange>& exchanges, const Operation& o) {
  stream::Member* const member = o.comm->kernels.get();
  auto found = std::ranges::find(exchanges, member, &stream::Exchange::member);
  if (found == exchanges.end()) found = exchanges.insert(found, {.member = member, .stream = o.stream});
  WEFT_CHECK(check_stream(o, found->stream));
  found->transfers.push_back(*o.transfer);
  return {};
}

}  // namespace

Result<std::unique_ptr<stream::Member>> kernels_of(Communicator& comm, int device_number) {
  enum { kProcess, kKey, kDevice, kFields };
  const std::uint64_t mine[kFields] = {this_process(), comm.rank() == 0 ? new_key() : 0,
                                       static_cast<std::uint64_t>(device_number)};
  std::vector<std::uint64_t> all(kFields * static_cast<std::size_t>(comm.ranks()));
  WEFT_CHECK(comm.all_gather(std::span<const std::uint64_t>(mine), std::span(all)));
  std::vector<int> devices;
  bool one_process = true;
  for (std::size_t r = 0; r < all.size(); r += kFields) {
    one_process = one_process && all[r + kProcess] == mine[kProcess];
    devices.push_back(static_cast<int>(all[r + kDevice]));
  }
  if (!one_process) return nullptr;

  const std::uint64_t key = all[kKey];
  if (comm.rank() == 0) {
    auto path = choose(devices);
    const std::lock_guard guard(shelf().mutex);
    shelf().groups.emplace(key, std::move(path));
  }
  const Status there = comm.barrier();
  Result<stream::Path> path = failure(Code::kAborted, Blame::kCommunicator, "rank 0 gave up meanwhile");
  if (there) {
    const std::lock_guard guard(shelf().mutex);
    if (const auto found = shelf().groups.find(key); found != shelf().groups.end()) path = found->second;
  }
  const Status taken = there ? comm.barrier() : there;
  if (comm.rank() == 0) {
    const std::lock_guard guard(shelf().mutex);
    shelf().groups.erase(key);
  }
  WEFT_CHECK(taken);
  if (!path) return tl::make_unexpected(path.error());
  return path->group ? std::make_unique<stream::Member>(path->group, comm.rank()) : nullptr;
}

Status start_kernels(std::span<const Operation> operations) {
  std::vector<stream::Call> calls;
  std::vector<stream::Exchange> exchanges;
  for (const Operation& o : operations) {
    if (o.transfer) {
      WEFT_CHECK(add_transfer(exchanges, o));
      continue;
    }
    calls.push_back({.member = o.comm->kernels.get(), .request = o.request, .stream = o.stream});
    if (!o.sum) continue;
    calls.back().request.scalar = o.sum->scalar;
    calls.back().scalar = o.sum->in_device;
  }
  WEFT_CHECK(stream::start(calls));
  return stream::start_exchanges(exchanges);
}

}  // namespace weft::compat::nccl
