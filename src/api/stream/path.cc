#include "api/stream/path.h"

#include <numeric>
#include <set>

namespace weft::stream {
namespace {

Path host_memory(std::string_view why) {
  return {Way::kHostMemory, nullptr, fmt::format("through host memory: {}", why)};
}

bool cannot(const Error& error) { return error.code == Code::kUnsupported || error.code == Code::kNoResources; }

}  // namespace

Path choose_way(const Places& places, const std::string& forced) {
  const std::set<net::cuda::Identity> devices(places.devices.begin(), places.devices.end());
  const std::set<std::uint64_t> processes(places.processes.begin(), places.processes.end());
  if (forced == "host") return host_memory("WEFT_DEVICE_PATH says so");
  if (processes.size() == 1) return {Way::kKernels, nullptr, "kernels: all ranks are in one process"};
  const bool shared = devices.size() < places.devices.size();
  if (shared && forced != "kernels")
    return host_memory(
        "processes share a GPU, which does not run their kernels at the same time, so that none may wait for "
        "another's");
  if (processes.size() < places.processes.size())
    return host_memory("some processes have several ranks, which kernels do not serve yet");
  return {
      Way::kJoinedKernels, nullptr,
      fmt::format("kernels that send messages through regions of device memory which all processes map, and load and "
                  "store what lies in symmetric windows: {}",
                  shared ? "WEFT_DEVICE_PATH says so, though processes share a GPU and their kernels take turns"
                         : "each rank is a process with a GPU of its own")};
}

Result<Path> choose_path(std::shared_ptr<Runtime> runtime, std::span<const int> devices, bool one_process,
                         const std::string& forced, std::chrono::nanoseconds timeout) {
  Places places{.devices = {}, .processes = std::vector<std::uint64_t>(devices.size())};
  if (!one_process) std::iota(places.processes.begin(), places.processes.end(), 0);
  WEFT_TRY(const int there, runtime->device->count());
  for (const int device : devices) {
    if (device < 0 || device >= there) return bad_input("device {} of {}", device, there);
    WEFT_TRY(places.devices.emplace_back(), runtime->device->identity(device));
  }
  Path path = choose_way(places, forced);
  if (path.way == Way::kJoinedKernels)
    for (const int device : devices)
      for (const int peer : devices)
        if (const Status reached = runtime->device->reach(device, peer); !reached)
          return host_memory(reached.error().message);
  if (path.way != Way::kKernels) return path;
  auto group = Group::open(std::move(runtime), devices, timeout);
  if (group) {
    path.group = *group;
    path.why = fmt::format(
        "kernels that load and store the peers' memory: all ranks are in one process, and their blocks "
        "({} of a rank, at most) fit on their GPUs together",
        path.group->geometry().strands);
    return path;
  }
  if (cannot(group.error())) return host_memory(group.error().message);
  return tl::make_unexpected(group.error());
}

}  // namespace weft::stream
