#include "tests/host_cuda/allocations.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/host_cuda/devices.h"
#include "tests/host_cuda/engine.h"

namespace weft::host_cuda {
namespace {

// Who has the memory, and as which file of its own; the rest of the handle is zero.
struct Handle {
  pid_t process;
  int file;
  std::size_t bytes;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

// CUDA may keep what allocates waiting until kernels have ended; here it always does.
void wait_for_kernels(int device) {
  const Locked locked;
  locked->until_all_ended(device);
}

void* map(std::size_t bytes, int file) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

Allocations& Allocations::get() {
  static Allocations& all = *new Allocations;
  return all;
}

void Allocations::add(const One& one, const char* what) {
  const Locked device;
  const std::lock_guard guard(mutex_);
  all_[one.at] = one;
  device->memory().add(one.at, one.bytes, what);
}

cudaError_t Allocations::allocate(void** at, std::size_t bytes, int device) {
  if (at == nullptr) return cudaErrorInvalidValue;
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > kTotal - std::min(kTotal, used())) return cudaErrorMemoryAllocation;
  wait_for_kernels(device);
  const int file = memfd_create("device memory", MFD_CLOEXEC);
  void* const made = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0 ? map(bytes, file) : nullptr;
  if (made == nullptr) {
    if (file >= 0) close(file);
    return cudaErrorMemoryAllocation;
  }
  constexpr std::size_t kFilled = std::size_t{16} << 20;  // so that use of what nobody has written shows
  std::memset(made, 0xa5, std::min(bytes, kFilled));
  *at = made;
  add({static_cast<std::byte*>(made), bytes, Kind::kDevice, device, file}, "device memory");
  guard(made, true);
  return cudaSuccess;
}

cudaError_t Allocations::pin(void** at, std::size_t bytes, int device) {
  if (at == nullptr) return cudaErrorInvalidValue;
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  wait_for_kernels(device);
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return cudaErrorMemoryAllocation;
  *at = made;
  add({static_cast<std::byte*>(made), bytes, Kind::kPinned}, "pinned memory");
  return cudaSuccess;
}

cudaError_t Allocations::release(void* at, Kind kind) {
  if (at == nullptr) return cudaSuccess;
  One one{};
  if (!find(at, &one)) return cudaErrorInvalidValue;
  const Locked device;
  device->until_all_ended(one.device);  // as CUDA does
  const std::lock_guard guard(mutex_);
  const auto found = all_.find(static_cast<std::byte*>(at));
  if (found == all_.end() || found->second.kind != kind) return cudaErrorInvalidValue;
  device->memory().remove(at);
  munmap(at, found->second.bytes);
  if (found->second.file >= 0) close(found->second.file);
  all_.erase(found);
  return cudaSuccess;
}

cudaError_t Allocations::handle(cudaIpcMemHandle_t* handle, void* at) {
  One one{};
  if (handle == nullptr || !find(at, &one) || one.kind != Kind::kDevice) return cudaErrorInvalidValue;
  const Handle own{getpid(), one.file, one.bytes};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &own, sizeof own);
  return cudaSuccess;
}

cudaError_t Allocations::open(void** at, const cudaIpcMemHandle_t& handle) {
  Handle theirs{};
  std::memcpy(&theirs, &handle, sizeof theirs);
  if (at == nullptr || theirs.bytes == 0) return cudaErrorInvalidValue;
  if (theirs.process == getpid()) return cudaErrorDeviceUninitialized;
  const std::string path = "/proc/" + std::to_string(theirs.process) + "/fd/" + std::to_string(theirs.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const made = file >= 0 ? map(theirs.bytes, file) : nullptr;
  if (file >= 0) close(file);
  if (made == nullptr) return cudaErrorMapBufferObjectFailed;
  *at = made;
  add({static_cast<std::byte*>(made), theirs.bytes, Kind::kMapped}, "memory of another process");
  guard(made, true);
  return cudaSuccess;
}

bool Allocations::find(const void* at, One* found) const {
  const std::lock_guard guard(mutex_);
  auto after = all_.upper_bound(static_cast<const std::byte*>(at));
  if (after == all_.begin()) return false;
  const One& one = std::prev(after)->second;
  if (static_cast<const std::byte*>(at) >= one.at + one.bytes) return false;
  *found = one;
  return true;
}

void Allocations::guard(const void* at, bool closed) const {
  static const bool guarded = setting("WEFT_MODEL_GUARDED", 0) != 0;
  One one{};
  if (guarded && find(at, &one) && one.kind != Kind::kPinned)
    mprotect(one.at, one.bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE);
}

std::size_t Allocations::used() const {
  const std::lock_guard guard(mutex_);
  std::size_t sum = 0;
  for (const auto& [at, one] : all_) sum += one.kind == Kind::kDevice ? one.bytes : 0;
  return sum;
}

}  // namespace weft::host_cuda
