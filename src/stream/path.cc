#include "stream/path.h"

#include <set>

namespace weft::stream {

Result<Path> choose_path(std::shared_ptr<Runtime> runtime, std::span<const int> devices, bool one_process,
                         const std::string& forced, std::chrono::nanoseconds timeout) {
  if (forced == "host") return Path{nullptr, "through host memory: WEFT_DEVICE_PATH says so"};
  const std::set<int> different(devices.begin(), devices.end());
  if (!one_process && different.size() < devices.size())
    return Path{
        nullptr,
        "through host memory: processes share a GPU, which does not run their kernels at the same time, so that "
        "none may wait for another's"};
  if (!one_process) return Path{nullptr, "through host memory: processes do not map each other's device memory yet"};
  auto group = Group::open(std::move(runtime), devices, timeout);
  if (group)
    return Path{*group, fmt::format("kernels that load and store the peers' memory: all ranks are in one process, and "
                                    "their blocks ({} of a rank, at most) fit on their GPUs together",
                                    (*group)->geometry().strands)};
  if (group.error().code == Code::kUnsupported || group.error().code == Code::kNoResources)
    return Path{nullptr, fmt::format("through host memory: {}", group.error().message)};
  return tl::make_unexpected(group.error());
}

}  // namespace weft::stream
