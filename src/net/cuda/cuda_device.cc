#include <cuda.h>
#include <cuda_runtime.h>

#include <bit>
#include <map>

#include "base/mutex.h"
#include "net/cuda/cuda_stream_gates.cuh"

namespace weft::net::cuda {
namespace {

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream); }

struct CudaEvent final : Event {
  ~CudaEvent() override { cudaEventDestroy(event); }
  cudaEvent_t event = nullptr;
};

using AddressRange = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);

// What only the driver has. Errors (kUnsupported): this one has not.
template <class Function>
Result<Function> from_driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  WEFT_CHECK(checked(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found),
                     "cudaGetDriverEntryPointByVersion"));
  if (found == cudaDriverEntryPointSuccess && function != nullptr) return reinterpret_cast<Function>(function);
  return failure(Code::kUnsupported, Blame::kProcess, "no CUDA device: the driver lacks {}", name);
}

class CudaDevice final : public Device {
 public:
  CudaDevice(WaitValue wait_value, AddressRange address_range)
      : address_range_(address_range), batons_(wait_value, pool_) {}
  ~CudaDevice() override {
    for (const auto& [device, stream] : own_) cudaStreamDestroy(stream);
  }

  Result<int> count() override {
    int devices = 0;
    WEFT_CHECK(checked(cudaGetDeviceCount(&devices), "no CUDA device"));
    return devices;
  }
  Result<int> current() override {
    int device = 0;
    WEFT_CHECK(checked(cudaGetDevice(&device), "cudaGetDevice"));
    return device;
  }
  Status use(int device) override {
    WEFT_TRY(const int devices, count());
    if (device < 0 || device >= devices) return bad_input("device {} of {}", device, devices);
    return checked(cudaSetDevice(device), "cudaSetDevice");
  }
  Result<Identity> identity(int device) override {
    cudaDeviceProp properties{};
    WEFT_CHECK(checked(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
    static_assert(sizeof properties.uuid == sizeof(Identity));
    return std::bit_cast<Identity>(properties.uuid);
  }
  Status reach(int device, int peer) override {
    if (device == peer) return {};
    int can = 0;
    WEFT_CHECK(checked(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer"));
    if (can == 0)
      return failure(Code::kUnsupported, Blame::kProcess, "device {} does not reach the memory of device {}", device,
                     peer);
    WEFT_CHECK(use(device));
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
    if (enabled != cudaErrorPeerAccessAlreadyEnabled) return checked(enabled, "cudaDeviceEnablePeerAccess");
    (void)cudaGetLastError();  // or the next call that asks for it would find this one
    return {};
  }
  Status atomics(int device, int peer) override {
    if (device == peer) return {};
    int can = 0;
    WEFT_CHECK(checked(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrNativeAtomicSupported, device, peer),
                       "cudaDeviceGetP2PAttribute"));
    if (can != 0) return {};
    return failure(Code::kUnsupported, Blame::kProcess, "the link of devices {} and {} carries no atomic operations",
                   device, peer);
  }
  bool host_reaches() const override { return false; }
  Status check_pointer(const void* memory, const char* what) override {
    if (memory == nullptr) return bad_input("{} is null", what);
    cudaPointerAttributes attributes{};
    WEFT_CHECK(checked(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes"));
    if (attributes.type == cudaMemoryTypeUnregistered)
      return bad_input("{} is a host pointer where a device pointer is needed", what);
    return {};
  }

  Result<void*> allocate(Bytes bytes) override {
    const PastCaptures past;
    void* memory = nullptr;
    WEFT_CHECK(checked(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc"));
    return memory;
  }
  Status release(void* memory) override {
    const PastCaptures past;
    return checked(cudaFree(memory), "cudaFree");
  }
  Result<SharedMemory> share(const void* memory) override {
    const PastCaptures past;
    CUdeviceptr base = 0;
    std::size_t size = 0;
    if (address_range_(&base, &size, reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS)
      return bad_input("memory is shared that was not allocated");
    cudaIpcMemHandle_t handle{};
    static_assert(sizeof handle == sizeof(MemoryHandle));
    WEFT_CHECK(checked(cudaIpcGetMemHandle(&handle, reinterpret_cast<void*>(base)), "cudaIpcGetMemHandle"));
    return SharedMemory{std::bit_cast<MemoryHandle>(handle),
                        static_cast<Bytes>(reinterpret_cast<CUdeviceptr>(memory) - base)};
  }
  Result<std::shared_ptr<void>> open(const MemoryHandle& handle) override {
    const PastCaptures past;
    void* memory = nullptr;
    WEFT_CHECK(checked(
        cudaIpcOpenMemHandle(&memory, std::bit_cast<cudaIpcMemHandle_t>(handle), cudaIpcMemLazyEnablePeerAccess),
        "cudaIpcOpenMemHandle"));
    return std::shared_ptr<void>(memory, [](void* m) { cudaIpcCloseMemHandle(m); });
  }
  Result<std::shared_ptr<void>> pinned(Bytes bytes) override { return pool_->take(static_cast<std::size_t>(bytes)); }
  Status reserve_pinned(Bytes bytes) override { return pool_->reserve(static_cast<std::size_t>(bytes)); }

  Status copy_now(void* to, const void* from, Bytes bytes) override {
    return now([&](cudaStream_t stream) {
      return checked(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream),
                     "cudaMemcpyAsync");
    });
  }
  Status clear_now(void* memory, Bytes bytes) override {
    return now([&](cudaStream_t stream) {
      return checked(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream), "cudaMemsetAsync");
    });
  }

  Result<std::shared_ptr<void>> make_stream() override {
    const PastCaptures past;
    cudaStream_t stream = nullptr;
    WEFT_CHECK(checked(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
    return std::shared_ptr<void>(stream, [](void* s) { cudaStreamDestroy(static_cast<cudaStream_t>(s)); });
  }
  Result<bool> captured(Stream stream) override {
    cudaStreamCaptureStatus status{};
    WEFT_CHECK(checked(cudaStreamIsCapturing(of(stream), &status), "cudaStreamIsCapturing"));
    return status != cudaStreamCaptureStatusNone;
  }
  Result<std::unique_ptr<Event>> make_event() override {
    auto made = std::make_unique<CudaEvent>();
    WEFT_CHECK(checked(cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming), "cudaEventCreate"));
    return made;
  }
  Status record(Event& event, Stream stream) override {
    return checked(cudaEventRecord(static_cast<CudaEvent&>(event).event, of(stream)), "cudaEventRecord");
  }
  Status record_given(void* event, Stream stream) override {
    return checked(cudaEventRecord(static_cast<cudaEvent_t>(event), of(stream)), "cudaEventRecord");
  }
  Status wait(Event& event, Stream stream) override {
    return checked(cudaStreamWaitEvent(of(stream), static_cast<CudaEvent&>(event).event), "cudaStreamWaitEvent");
  }

  Status finish(Event& event) override {
    const PastCaptures past;
    return checked(cudaEventSynchronize(static_cast<CudaEvent&>(event).event), "cudaEventSynchronize");
  }

  Status copy(void* to, const void* from, Bytes bytes, Stream stream) override {
    return checked(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, of(stream)),
                   "cudaMemcpyAsync");
  }
  Result<std::unique_ptr<StreamGate>> hand_over(Stream stream) override {
    WEFT_TRY(const bool in_graph, captured(stream));
    if (in_graph) return failure(Code::kUnsupported, Blame::kInput, "work of the host cannot be captured in a graph");
    WEFT_TRY(const cudaStream_t own, own_stream());
    return batons_.hand_over(stream, own);
  }
  Status synchronize(Stream stream) override {
    const PastCaptures past;
    return checked(cudaStreamSynchronize(of(stream)), "cudaStreamSynchronize");
  }

 private:
  // Does one thing in a stream of weft's own and waits for it: streams of the application neither wait nor are waited
  // for.
  template <class Queue>
  Status now(Queue&& queue) {
    const PastCaptures past;
    WEFT_TRY(const cudaStream_t stream, own_stream());
    WEFT_CHECK(queue(stream));
    return synchronize(stream);
  }
  // A stream of the current device with the highest priority, so that it shares no hardware queue with streams whose
  // kernels wait.
  Result<cudaStream_t> own_stream() {
    WEFT_TRY(const int device, current());
    const MutexLock guard(mutex_);
    if (const auto found = own_.find(device); found != own_.end()) return found->second;
    const PastCaptures past;
    int least = 0, most = 0;
    WEFT_CHECK(checked(cudaDeviceGetStreamPriorityRange(&least, &most), "cudaDeviceGetStreamPriorityRange"));
    cudaStream_t stream = nullptr;
    WEFT_CHECK(checked(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, most), "cudaStreamCreate"));
    return own_[device] = stream;
  }

  const AddressRange address_range_;
  Mutex mutex_;
  std::map<int, cudaStream_t> own_ WEFT_GUARDED_BY(mutex_);
  std::shared_ptr<PinnedPool> pool_ = std::make_shared<PinnedPool>();
  StreamGates batons_;
};

}  // namespace

Result<std::unique_ptr<Device>> cuda_device() {
  int devices = 0;
  WEFT_CHECK(checked(cudaGetDeviceCount(&devices), "no CUDA device"));
  if (devices == 0) return failure(Code::kNotFound, Blame::kProcess, "no CUDA device: none is visible");
  WEFT_TRY(const auto wait_value, from_driver<WaitValue>("cuStreamWaitValue32"));
  WEFT_TRY(const auto address_range, from_driver<AddressRange>("cuMemGetAddressRange"));
  return std::make_unique<CudaDevice>(wait_value, address_range);
}

}  // namespace weft::net::cuda
