#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/units.h"

// What weft needs of a GPU's runtime, behind a seam of two: CUDA, and the host as if it were one (tests, CI).
namespace weft::net::cuda {

// A stream as its runtime names it (cudaStream_t); null is the default one.
using Stream = void*;

// Names memory of a device to other processes of the machine; may be sent as it is.
using MemoryHandle = std::array<std::byte, 64>;
// The place at which other processes find memory: an offset in bytes from the beginning of what they open.
struct SharedMemory {
  MemoryHandle handle{};
  Bytes offset = 0;
};
// A GPU, whatever number a process has for it.
using Identity = std::array<std::uint64_t, 2>;

// A place in a stream where it waits for work that is done elsewhere.
// Thread: any; one calls wait_until_reached and finish.
class StreamGate {
 public:
  virtual ~StreamGate() = default;
  // Returns when everything before it in the stream has ended, or `give_up()` says so: asked every few milliseconds.
  // Errors: kAborted: given up; the device's, whose streams come nowhere any more.
  virtual Status wait_until_reached(const std::function<bool()>& give_up) = 0;
  // The stream goes on. Needed exactly once, whatever happened.
  virtual void finish() = 0;
};

// A place in a stream that other streams can wait for. What still waits for it does so after its end, too.
class Event {
 public:
  virtual ~Event() = default;
};

// Thread: any.
class Device {
 public:
  virtual ~Device() = default;

  virtual Result<int> count() = 0;
  // The device that the calling thread uses: for memory, events and streams that it makes, and for what it queues.
  virtual Result<int> current() = 0;
  // Errors (bad input): there is no such device.
  virtual Status use(int device) = 0;
  virtual Result<Identity> identity(int device) = 0;
  // From now on what runs on `device` may load and store the memory of `peer`. Errors: kUnsupported.
  virtual Status reach(int device, int peer) = 0;
  // May what runs on `device` add to and exchange words in the memory of `peer`? Errors: kUnsupported: their link does
  // not.
  virtual Status atomics(int device, int peer) = 0;
  // May the host load and store what allocate() gives? Otherwise data is copied through pinned memory.
  virtual bool host_reaches() const = 0;
  // Errors (bad input): the pointer is not one that a device can use; names `what`.
  virtual Status check_pointer(const void* memory, const char* what) = 0;

  // Device memory. Owns: the caller, until release(). Errors: kNoResources.
  virtual Result<void*> allocate(Bytes bytes) = 0;
  virtual Status release(void* memory) = 0;
  // For other processes: memory as allocate() gave it, or within it; all of that is opened. It must not be released
  // before they have closed theirs. Errors: of memory that came otherwise.
  virtual Result<SharedMemory> share(const void* memory) = 0;
  // Another process's memory, for what runs on the current device; closed with its last owner. Errors: kPeerDied, or
  // the runtime's: the device does not reach that one.
  virtual Result<std::shared_ptr<void>> open(const MemoryHandle& handle) = 0;
  // Memory of the host that copies run at full speed from and to. Freed with the last owner.
  virtual Result<std::shared_ptr<void>> pinned(Bytes bytes) = 0;
  // Reserves this many bytes: an allocation later may have to wait until streams come to an end.
  virtual Status reserve_pinned(Bytes bytes) = 0;

  // At once, past all streams; may be called while a stream is captured, and is no part of the graph.
  virtual Status copy_now(void* to, const void* from, Bytes bytes) = 0;
  virtual Status clear_now(void* memory, Bytes bytes) = 0;

  // A stream of weft's own, on the current device; ends with its last owner, when it is idle.
  virtual Result<std::shared_ptr<void>> make_stream() = 0;
  // What is queued in it becomes part of a graph.
  virtual Result<bool> captured(Stream stream) = 0;
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  // The event happens when the stream has come to this place; a second time only counts for waits that come later.
  virtual Status record(Event& event, Stream stream) = 0;
  // The same of an event that the application has made (cudaEvent_t). Errors: kUnsupported: the device has none.
  virtual Status record_given(void* event, Stream stream) = 0;
  // The stream waits for the place that was last recorded; for none if there is none.
  virtual Status wait(Event& event, Stream stream) = 0;
  // The caller waits for it.
  virtual Status finish(Event& event) = 0;

  // Stream-ordered, between host and device in any direction.
  virtual Status copy(void* to, const void* from, Bytes bytes, Stream stream) = 0;
  virtual Result<std::unique_ptr<StreamGate>> hand_over(Stream stream) = 0;
  virtual Status synchronize(Stream stream) = 0;
};

// CUDA's current devices. Errors (kNotFound): weft was built without CUDA, or "no CUDA device: …".
Result<std::unique_ptr<Device>> cuda_device();

}  // namespace weft::net::cuda
