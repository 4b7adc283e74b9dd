#pragma once

#include <map>
#include <vector>

#include "base/mutex.h"
#include "net/cuda/device.h"
#include "net/cuda/host_memory.h"
#include "net/cuda/work_queue.h"

namespace weft::net::cuda {

// What streams were asked to do while one of them was captured, as CUDA's graphs keep it: the captured stream, and
// those that waited for an event of a captured one.
class HostGraph {
 public:
  // Does it all, every stream's part in order, and returns when it is done. Any number of times.
  void replay() const;

 private:
  friend class HostDevice;
  struct Step {
    Stream stream;
    std::function<void()> work;                        // or, if empty, …
    const Event *records = nullptr, *waits = nullptr;  // … one of these
  };
  std::vector<Step> steps_;
  std::map<Stream, bool> streams_;       // captured ones
  std::map<const Event*, bool> events_;  // recorded in them
};

// The host as one or several devices, for tests: every stream is a queue with a thread of its own.
class HostDevice final : public Device {
 public:
  // `first`: the number that distinguishes its devices from those of other processes; see identity.
  explicit HostDevice(int devices = 1, int first = 0) : devices_(devices), first_(first) {}

  Result<int> count() override { return devices_; }
  Result<int> current() override;
  Status use(int device) override;
  Result<Identity> identity(int device) override;
  Status reach(int device, int peer) override;
  Status atomics(int device, int peer) override { return reach(device, peer); }
  bool host_reaches() const override { return true; }
  Status check_pointer(const void* memory, const char* what) override;
  Result<void*> allocate(Bytes bytes) override { return memory_.allocate(bytes); }
  Status release(void* memory) override { return memory_.release(memory); }
  Result<SharedMemory> share(const void* memory) override { return memory_.share(memory); }
  Result<std::shared_ptr<void>> open(const MemoryHandle& handle) override { return HostMemory::open(handle); }
  Result<std::shared_ptr<void>> pinned(Bytes bytes) override;
  Status reserve_pinned(Bytes) override { return {}; }
  Status copy_now(void* to, const void* from, Bytes bytes) override;
  Status clear_now(void* memory, Bytes bytes) override;
  Result<std::shared_ptr<void>> make_stream() override;
  Result<bool> captured(Stream stream) override;
  Result<std::unique_ptr<Event>> make_event() override;
  Status record(Event& event, Stream stream) override;
  Status record_given(void* event, Stream stream) override;
  Status wait(Event& event, Stream stream) override;
  Status finish(Event& event) override;
  Status copy(void* to, const void* from, Bytes bytes, Stream stream) override;
  // Errors (kUnsupported): the stream is captured, and the host's work would be no part of the graph.
  Result<std::unique_ptr<StreamGate>> hand_over(Stream stream) override;
  Status synchronize(Stream stream) override;

  // What a kernel would do, in stream order.
  Status run(Stream stream, std::function<void()> work);
  // From now on what is queued in `stream`, and in streams that wait for it, is kept instead of done.
  // One capture at a time; its streams must be idle.
  void begin_capture(Stream stream);
  HostGraph end_capture();

 private:
  // Takes a step of a captured stream; false: the stream is not captured.
  bool keep(HostGraph::Step step) WEFT_REQUIRES(mutex_);

  const int devices_, first_;
  HostMemory memory_;
  Mutex mutex_;
  std::map<Stream, WorkQueue> streams_ WEFT_GUARDED_BY(mutex_);  // queues themselves are not
  bool capturing_ WEFT_GUARDED_BY(mutex_) = false;
  HostGraph graph_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::net::cuda
