#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/units.h"

// What weft needs of a GPU's runtime, behind a seam of two: CUDA, and the host as if it were one (tests, CI).
namespace weft::net::cuda {

// A stream as its runtime names it (cudaStream_t); null is the default one.
using Stream = void*;

// A place in a stream where it waits for work that is done elsewhere.
// Thread: any; one calls wait_until_reached and finish.
class Baton {
 public:
  virtual ~Baton() = default;
  // Returns when everything before it in the stream has ended, or `give_up()` says so: asked every few milliseconds.
  // False: given up.
  virtual bool wait_until_reached(const std::function<bool()>& give_up) = 0;
  // The stream goes on. Needed exactly once, whatever happened.
  virtual void finish() = 0;
};

// Thread: any.
class Device {
 public:
  virtual ~Device() = default;

  virtual Result<int> count() = 0;
  // The device that the calling thread uses.
  virtual Result<int> current() = 0;
  // May the host load and store what allocate() gives? Otherwise data is copied through pinned memory.
  virtual bool host_reaches() const = 0;
  // Errors (bad input): the pointer is not one that a device can use; names `what`.
  virtual Status check_pointer(const void* memory, const char* what) = 0;

  // Device memory. Owns: the caller, until release(). Errors: kNoResources.
  virtual Result<void*> allocate(Bytes bytes) = 0;
  virtual Status release(void* memory) = 0;
  // Memory of the host that copies run at full speed from and to. Freed with the last owner.
  virtual Result<std::shared_ptr<void>> pinned(Bytes bytes) = 0;

  // Stream-ordered, between host and device in any direction.
  virtual Status copy(void* to, const void* from, Bytes bytes, Stream stream) = 0;
  virtual Result<std::unique_ptr<Baton>> hand_over(Stream stream) = 0;
  virtual Status synchronize(Stream stream) = 0;
};

// The host as a device: every stream is a queue with a thread of its own.
std::unique_ptr<Device> host_device();
// CUDA's current devices. Errors (kNotFound): weft was built without CUDA, or "no CUDA device: …".
Result<std::unique_ptr<Device>> cuda_device();

}  // namespace weft::net::cuda
