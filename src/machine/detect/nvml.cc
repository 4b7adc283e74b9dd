#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include "machine/detect/host_facts.h"

// NVML is spoken to without its header: the few functions and the one struct used here have kept their form since
// NVML 5 (nvml.h, "NVML API Reference"). A library that lacks one of them counts as absent.
namespace weft::topology {
namespace {

using Device = void*;
struct PciInfo {  // nvmlPciInfo_t
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18, kFeatureEnabled = 1;

struct Closer {
  void operator()(void* library) const { dlclose(library); }
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// NVML writes "00000000:0F:00.0"; everybody else "0000:0f:00.0".
std::string short_bus(const char* text) {
  std::string bus(text);
  if (const std::size_t colon = bus.find(':'); colon != std::string::npos && colon > 4) bus.erase(0, colon - 4);
  std::ranges::transform(bus, bus.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return bus;
}

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*pci)(Device, PciInfo*) = nullptr;
  int (*capability)(Device, int*, int*) = nullptr;
  int (*link_state)(Device, unsigned, unsigned*) = nullptr;
  int (*link_remote)(Device, unsigned, PciInfo*) = nullptr;

  bool load(void* library) {
    return find(library, "nvmlInit_v2", init) && find(library, "nvmlShutdown", shutdown) &&
           find(library, "nvmlDeviceGetCount_v2", count) && find(library, "nvmlDeviceGetHandleByIndex_v2", by_index) &&
           find(library, "nvmlDeviceGetPciInfo_v3", pci) &&
           find(library, "nvmlDeviceGetCudaComputeCapability", capability) &&
           find(library, "nvmlDeviceGetNvLinkState", link_state) &&
           find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", link_remote);
  }
};

HostFacts::Gpu read_gpu(const Nvml& nvml, Device device, const std::vector<std::string>& buses, std::string bus) {
  HostFacts::Gpu gpu{.bus_id = std::move(bus), .sm = {}, .switch_links = 0, .peers = {}};
  int major = 0, minor = 0;
  if (nvml.capability(device, &major, &minor) == kSuccess) gpu.sm = fmt::format("{}{}", major, minor);
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned state = 0;
    PciInfo remote{};
    if (nvml.link_state(device, link, &state) != kSuccess || state != kFeatureEnabled) continue;
    if (nvml.link_remote(device, link, &remote) != kSuccess) continue;
    const std::string peer = short_bus(remote.bus_id);
    if (std::ranges::find(buses, peer) == buses.end()) {
      ++gpu.switch_links;  // whatever is no GPU at the end of an NVLink is NVSwitch
      continue;
    }
    const auto known = std::ranges::find(gpu.peers, peer, &std::pair<std::string, std::int32_t>::first);
    known == gpu.peers.end() ? void(gpu.peers.emplace_back(peer, 1)) : void(++known->second);
  }
  return gpu;
}

}  // namespace

std::vector<HostFacts::Gpu> read_nvml() {
  const std::unique_ptr<void, Closer> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  Nvml nvml;
  if (!library || !nvml.load(library.get()) || nvml.init() != kSuccess) return {};
  unsigned count = 0;
  std::vector<std::pair<Device, std::string>> devices;
  std::vector<std::string> buses;
  if (nvml.count(&count) == kSuccess)
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      PciInfo info{};
      if (nvml.by_index(i, &device) != kSuccess || nvml.pci(device, &info) != kSuccess) continue;
      buses.push_back(short_bus(info.bus_id));
      devices.emplace_back(device, buses.back());
    }
  std::vector<HostFacts::Gpu> gpus;
  for (const auto& [device, bus] : devices) gpus.push_back(read_gpu(nvml, device, buses, bus));
  nvml.shutdown();
  return gpus;
}

}  // namespace weft::topology
